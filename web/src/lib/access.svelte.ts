/** The API key of this tab, where the service asks for one. */
const NAME = "whyrank-key";

class Access {
  key = $state(sessionStorage.getItem(NAME) ?? "");
  wanted = $state(false);

  use(key: string) {
    sessionStorage.setItem(NAME, key);
    this.key = key;
    this.wanted = false;
  }

  /** Ask for another key. */
  forget() {
    sessionStorage.removeItem(NAME);
    this.key = "";
    this.wanted = true;
  }
}

export const access = new Access();
