/** Light or dark: as the system says, until the person says otherwise. */
const NAME = "whyrank-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  chosen = $state(localStorage.getItem(NAME));
  #system = $state(system.matches ? "dark" : "light");

  constructor() {
    system.addEventListener("change", () => (this.#system = system.matches ? "dark" : "light"));
  }

  get shown(): string {
    return this.chosen ?? this.#system;
  }

  toggle() {
    const next = this.shown === "dark" ? "light" : "dark";
    this.chosen = next === this.#system ? null : next; // back to the system's choice where that is the same
    if (this.chosen) localStorage.setItem(NAME, this.chosen);
    else localStorage.removeItem(NAME);
    showTheme();
  }
}

export const theme = new Theme();

export function showTheme() {
  if (theme.chosen) document.documentElement.dataset["theme"] = theme.chosen;
  else delete document.documentElement.dataset["theme"];
}
