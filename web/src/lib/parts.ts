/** Where the parts of a score lie on a bar that all scores of a list share. */
import type { Reason } from "./api";

export interface Span {
  name: string;
  value: number;
  from: number;
  width: number;
}

export interface Scale {
  low: number;
  high: number;
}

const ORDER = ["user", "item", "interaction", "bonus", "popularity", "boost"];
const place = (name: string) => (ORDER.indexOf(name) + ORDER.length) % ORDER.length;

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

export function names(reasons: Reason[]): string[] {
  const all = new Set(reasons.flatMap((reason) => Object.keys(reason.parts)));
  return [...all].sort((a, b) => place(a) - place(b));
}

/** From the most negative to the most positive sum of parts, zero included. */
export function scale(reasons: Reason[]): Scale {
  const sums = reasons.map(({ parts }) => Object.values(parts));
  const low = Math.min(0, ...sums.map((values) => sum(values.filter((value) => value < 0))));
  const high = Math.max(0, ...sums.map((values) => sum(values.filter((value) => value > 0))));
  return high > low ? { low, high } : { low: 0, high: 1 };
}

/** Positive parts stack to the right of zero, negative ones to the left; in percent of the bar. */
export function spans(reason: Reason, { low, high }: Scale): Span[] {
  const percent = (value: number) => (100 * value) / (high - low);
  let [left, right] = [percent(-low), percent(-low)];
  return names([reason]).map((name) => {
    const value = reason.parts[name] ?? 0;
    const width = percent(Math.abs(value));
    const from = value < 0 ? (left -= width) : right;
    if (value >= 0) right += width;
    return { name, value, from, width };
  });
}
