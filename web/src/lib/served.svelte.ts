/** The models that are served, and the two that the page is about. */
import * as api from "./api";
import { Resource } from "./resource.svelte";
import { route } from "./route.svelte";

/** Models of one kind are told apart by their ids. */
function distinct(models: api.Model[]): api.Model[] {
  return models.map((model) => {
    const alone = models.filter(({ name }) => name === model.name).length === 1;
    return alone ? model : { ...model, name: `${model.name} (${model.id})` };
  });
}

class Served extends Resource<api.Models> {
  get list(): api.Model[] {
    return this.data?.models ?? [];
  }

  /** The chosen model, or the default. */
  get model(): api.Model | undefined {
    return this.named(route.get("model")) ?? this.named(this.data?.default ?? "");
  }

  /** The model it stands beside, if any. */
  get compare(): api.Model | undefined {
    const other = this.named(route.get("compare"));
    return other === this.model ? undefined : other;
  }

  /** Ids in the address that no model has. */
  get unknown(): string[] {
    return ["model", "compare"].map((name) => route.get(name)).filter((id) => id && !this.named(id));
  }

  get ranksItems(): boolean {
    return this.list.some((model) => model.ranks_items);
  }

  /** Whether the key of this tab may do something; without keys everybody may do everything. */
  may(scope: string): boolean {
    return this.data?.service.scopes.includes(scope) ?? false;
  }

  named(id: string): api.Model | undefined {
    return this.list.find((model) => model.id === id);
  }

  refresh = () =>
    this.load(async (signal) => {
      const answer = await api.models(signal);
      return { ...answer, models: distinct(answer.models) };
    });
}

export const served = new Served();
