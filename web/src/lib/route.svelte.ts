/** The page's state is its query string: every view can be shared as a link and works behind any path prefix. */
export type Changes = Record<string, string | number | boolean | null | undefined>;

function text(value: Changes[string]): string {
  if (value === true) return "1";
  return value === null || value === undefined || value === false ? "" : String(value);
}

function changed(query: URLSearchParams, changes: Changes): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (text(value) === "") next.delete(name);
    else next.set(name, text(value));
  }
  return next;
}

class Route {
  query = $state.raw(new URLSearchParams(location.search));

  constructor() {
    addEventListener("popstate", () => (this.query = new URLSearchParams(location.search)));
  }

  get view(): string {
    return this.query.get("view") ?? "explore";
  }

  get(name: string): string {
    return this.query.get(name) ?? "";
  }

  flag(name: string): boolean {
    return this.query.get(name) === "1";
  }

  /** A number within bounds, or the fallback where the query has none. */
  number<T>(name: string, low: number, high: number, fallback: T): number | T {
    const value = Number.parseFloat(this.get(name));
    return Number.isFinite(value) ? Math.min(Math.max(value, low), high) : fallback;
  }

  /** The link to a view; of the present state it keeps the models only. */
  to(view: string, changes: Changes = {}): string {
    const kept = { model: this.get("model"), compare: this.get("compare") };
    return `?${changed(new URLSearchParams(), { view, ...kept, ...changes })}`;
  }

  /** The link to the present view with something changed. */
  with(changes: Changes): string {
    return `?${changed(this.query, changes)}`;
  }

  go(href: string) {
    history.pushState(null, "", href);
    this.query = new URLSearchParams(location.search);
  }

  /** Change the present state; `replace` leaves no step for the back button (sliders, typing). */
  set(changes: Changes, { replace = false } = {}) {
    const next = changed(this.query, changes);
    if (next.toString() === this.query.toString()) return;
    history[replace ? "replaceState" : "pushState"](null, "", `?${next}`);
    this.query = next;
  }
}

export const route = new Route();

/** Links that only change the query stay on the page; new tabs and downloads are left to the browser. */
export function followLinks(event: MouseEvent) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest?.("a");
  const href = link?.getAttribute("href");
  if (!link || link.target || link.hasAttribute("download") || !href?.startsWith("?")) return;
  event.preventDefault();
  route.go(href);
}
