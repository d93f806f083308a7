/** Scores as a person can compare them: from the pool's average, in one number, with the parts it is made of. */
import type { Model, Reason } from "./api";

export interface Part {
  name: string;
  value: number;
}

export interface Scale {
  low: number;
  high: number;
}

const ORDER = ["user", "item", "interaction", "bonus", "popularity", "boost"];
const place = (name: string) => (ORDER.indexOf(name) + ORDER.length) % ORDER.length;

/** The popularity part of an explanation of average popularity: models count from different zeros. */
export function averagePopularity(model: Model | undefined, mu: number | null): number {
  const [none = 0, all = 0] = model?.average_popularity ?? [];
  const weight = mu ?? model?.mu ?? 0;
  return (1 - weight) * none + weight * all;
}

/** The parts of a score; popularity is how far it is above or below the pool's average. */
export function parts(reason: Reason, average: number): Part[] {
  return Object.entries(reason.parts)
    .map(([name, value]) => ({ name, value: name === "popularity" ? value - average : value }))
    .sort((a, b) => place(a.name) - place(b.name));
}

export const net = (reason: Reason, average: number) => reason.score - ("popularity" in reason.parts ? average : 0);

/** From the lowest to the highest net score of the lists that share a scale, zero included. */
export function scale(reasons: Reason[], average: number): Scale {
  const nets = reasons.map((reason) => net(reason, average));
  const [low, high] = [Math.min(0, ...nets), Math.max(0, ...nets)];
  return high > low ? { low, high } : { low: 0, high: 1 };
}
