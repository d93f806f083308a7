/** Numbers and names as a person reads them. */
import type { Reason } from "./api";

const whole = new Intl.NumberFormat("en");

export const count = (value: number) => whole.format(value);

export const plural = (value: number, one: string, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** A share in percent. Halves go to the even digit, as in Python: files that the service makes show the same figure. */
export function percent(value: number, digits = 1): string {
  const even = { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false, roundingMode: "halfEven" } as const;
  return `${(100 * value).toLocaleString("en", even)}%`;
}

/** How long an answer took. */
export const duration = (milliseconds: number) =>
  milliseconds < 1000 ? `${Math.max(1, Math.round(milliseconds))} ms` : `${(milliseconds / 1000).toFixed(1)} s`;

/** A score with its sign as a real minus. */
export const score = (value: number, digits = 2) => value.toFixed(digits).replace("-", "−");

/** A number of unknown size in three or four figures. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return count(value);
  const size = Math.abs(value);
  if (size >= 1000) return count(Math.round(value));
  return score(value, size >= 100 ? 1 : size >= 1 ? 3 : size >= 0.001 ? 4 : 6);
}

export function times(value: number): string {
  if (value === 1) return "once";
  return value === 2 ? "twice" : `${count(value)} times`;
}

export function sentiment(value: number | null): "positive" | "negative" | "neutral" | "unknown" {
  if (value === null) return "unknown";
  if (value === 0) return "neutral";
  return value > 0 ? "positive" : "negative";
}

export const people = (value: number) => (value === 1 ? "1 person" : `${count(value)} people`);

/** A number with its sign, as it is added up. */
export const signed = (value: number, digits = 2) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);

/** The rest of the evidence, for those who look at scores. */
export function more({ evidence: { similar_items, user_says } }: Reason): string {
  return [
    similar_items ? `Said ${times(similar_items)} about similar items` : "Not said about similar items",
    user_says ? `${times(user_says)} by this user` : "never by this user",
  ].join(", ");
}

export const PARTS: Record<string, string> = {
  user: "user",
  item: "item",
  popularity: "popularity",
  interaction: "user and item together",
  bonus: "evidence and settings",
  boost: "settings",
};

const METRICS: Record<string, [string, string]> = {
  ndcg_paper: ["NDCG (paper)", "how near the top the right reasons are; the best possible value is below 100%"],
  ndcg: ["NDCG", "how near the top the right reasons are"],
  precision: ["Precision", "share of the list that is right"],
  recall: ["Recall", "share of the right reasons that the list contains"],
  f1: ["F1", "precision and recall in one number"],
  hit: ["Hit rate", "share of lists with at least one right reason"],
  mrr: ["MRR", "how early the first right reason comes"],
  map: ["MAP", "precision averaged over the right reasons"],
  ndcg_propensity: ["NDCG (propensity)", "rare reasons count as if all were said equally often"],
  coverage: ["Coverage", "share of the pool that is ever shown"],
  novelty: ["Novelty", "how rare the shown reasons are, in bits"],
  personalization: ["Personalization", "how much the lists of two users differ"],
  redundancy: ["Redundancy", "how similar the reasons of one list are (lower is better)"],
  loss: ["Training loss", "what training minimizes"],
  item_loss: ["Training loss of items", "what the training of items minimizes"],
  explanation_f1: ["F1 of reasons", "over all pairs"],
  recommendation_f1: ["F1 of items", "over all users"],
};

export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export const metric = (name: string): string => METRICS[name]?.[0] ?? capital(name.replaceAll("_", " "));

/** A metric's value; most are shares. */
export const metricValue = (name: string, value: number): string =>
  name === "novelty" || name.includes("loss") || Math.abs(value) > 1 ? figure(value) : percent(value, 2);

export const meaning = (name: string): string => METRICS[name]?.[1] ?? "";

export const day = (stamp: string) => new Date(stamp).toLocaleDateString("en", { dateStyle: "medium" });

/** A time as the service writes it, where the reader is. */
export const stamp = (time: string) => new Date(time).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

export const month = (seconds: number) =>
  new Date(1000 * seconds).toLocaleDateString("en", { month: "long", year: "numeric", timeZone: "UTC" });

/** A time, given in seconds since 1970, where the reader is. */
export const moment = (seconds: number) =>
  new Date(1000 * seconds).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

export const date = (seconds: number) => new Date(1000 * seconds).toLocaleDateString("en", { dateStyle: "medium" });

/** What people do with reasons: the event, and what it is called. */
export const REACTIONS = [
  ["clicked", "clicks"],
  ["helpful", "helpful votes"],
  ["converted", "conversions"],
  ["dismissed", "dismissals"],
] as const;

export const reaction = (event: string) => REACTIONS.find(([name]) => name === event)?.[1] ?? event;

/** A change in percent, with its sign. */
export const change = (share: number, digits = 1) => `${signed(100 * share, digits)}%`;

/** A p-value as it is printed; no word says more than the number. */
export function certainty(p: number | null | undefined): string {
  if (p === null || p === undefined) return "";
  if (p < 0.001) return "p\u00a0<\u00a00.001";
  if (p < 0.01) return "p\u00a0<\u00a00.01";
  return `p\u00a0=\u00a0${p.toFixed(2)}`;
}

/** A share as people say it: 27 of 100. */
export const outOf = (share: number) => `${Math.round(100 * share)} of 100`;
