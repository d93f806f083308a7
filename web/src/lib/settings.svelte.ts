/** How reasons are ranked, as the query string says. */
import type { Goals, Options, Polarity } from "./api";
import { route } from "./route.svelte";
import { served } from "./served.svelte";

const FEW = 5; // groups that each get a slider
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

  get serendipity(): number {
    return route.number("serendipity", 0, 1, 0);
  }

  /** The groups of items that places can be set aside for; none where there are too many to choose from here. */
  get groups(): string[] {
    const groups = served.data?.service.groups ?? [];
    return groups.length <= FEW ? groups : [];
  }

  /** The least share of the places that a group gets. */
  share(group: string): number {
    return route.number(`share-${group}`, 0, 1, 0);
  }

  get names(): string[] {
    const goals = ["serendipity", ...this.groups.map((group) => `share-${group}`)];
    return ["mu", "diversity", "specificity", "polarity", "grounded", ...goals];
  }

  get changed(): boolean {
    return this.names.some((name) => route.get(name));
  }

  /** What lists of items are for, beside the best scores; only what the person has moved. */
  get goals(): Goals {
    const shares = Object.fromEntries(this.groups.map((group) => [group, this.share(group)]).filter(([, share]) => share));
    return {
      ...(this.serendipity && { serendipity: this.serendipity }),
      ...(Object.keys(shares).length && { shares }),
    };
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
    route.set(Object.fromEntries(this.names.map((name) => [name, null])));
  }
}

export const settings = new Settings();
