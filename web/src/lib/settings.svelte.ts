/** How reasons are ranked, as the query string says. */
import type { Options, Polarity } from "./api";
import { route } from "./route.svelte";
import { served } from "./served.svelte";

const POLARITIES: readonly Polarity[] = ["any", "positive", "negative"];

class Settings {
  get polarity(): Polarity {
    return POLARITIES.find((one) => one === route.get("polarity")) ?? "positive";
  }

  get grounded(): boolean {
    return route.get("grounded") !== "0";
  }

  /** The model's own weight; null where neither model has one. */
  get ownMu(): number | null {
    return served.model?.mu ?? served.compare?.mu ?? null;
  }

  get mu(): number | null {
    return this.ownMu === null ? null : route.number("mu", 0, 1, this.ownMu);
  }

  get diversity(): number {
    return route.number("diversity", 0, 1, 0);
  }

  get specificity(): number {
    return route.number("specificity", 0, 1, 0);
  }

  get changed(): boolean {
    return ["mu", "diversity", "specificity", "polarity", "grounded"].some((name) => route.get(name));
  }

  /** What the service is asked for; a `mu` only where the person has moved it. */
  get options(): Options {
    return {
      ...(served.model && { model: served.model.id }),
      ...(served.compare && { compare: served.compare.id }),
      ...(this.mu !== null && route.get("mu") && { mu: this.mu }),
      polarity: this.polarity,
      grounded: this.grounded,
      diversity: this.diversity,
      specificity: this.specificity,
      similar: true,
    };
  }

  reset() {
    route.set({ mu: null, diversity: null, specificity: null, polarity: null, grounded: null });
  }
}

export const settings = new Settings();
