/** Numbers and names as a person reads them. */
import type { Reason } from "./api";

const whole = new Intl.NumberFormat("en");

export const count = (value: number) => whole.format(value);

export const plural = (value: number, one: string, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export const percent = (value: number, digits = 1) => `${(100 * value).toFixed(digits)}%`;

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

export function evidence({ evidence: { supporting, opposing, similar_items, user } }: Reason): string {
  const said = [
    supporting ? `${count(supporting)} for` : "nobody says so about this item yet",
    opposing ? `${count(opposing)} against` : "",
    similar_items ? `${times(similar_items)} about similar items` : "",
    user ? `${times(user)} by this user` : "",
  ];
  const line = said.filter(Boolean).join(" · ");
  return line.charAt(0).toUpperCase() + line.slice(1);
}

export const PARTS: Record<string, string> = {
  user: "user",
  item: "item",
  popularity: "popularity",
  interaction: "user and item together",
  bonus: "counts and settings",
  boost: "settings",
};

const METRICS: Record<string, [string, string]> = {
  ndcg_paper: ["NDCG (paper)", "right ones near the top, by the paper's normaliser"],
  ndcg: ["NDCG", "right ones near the top, textbook normaliser"],
  precision: ["Precision", "share of the list that is right"],
  recall: ["Recall", "share of what is right that the list holds"],
  f1: ["F1", "precision and recall in one"],
  hit: ["Hit rate", "lists with at least one right entry"],
  mrr: ["MRR", "how early the first right entry stands"],
  map: ["MAP", "precision averaged over the right places"],
  ndcg_propensity: ["NDCG (propensity)", "rare reasons count as if all were said alike often"],
  coverage: ["Coverage", "share of all that is ever shown"],
  novelty: ["Novelty", "how rare the shown ones are, in bits"],
  personalization: ["Personalization", "how much the lists of two users differ"],
  redundancy: ["Redundancy", "how alike the words within one list are"],
  loss: ["Loss", "what training minimises"],
  item_loss: ["Loss of items", "what the training of items minimises"],
  explanation_f1: ["F1 of reasons", "over all pairs"],
  recommendation_f1: ["F1 of items", "over all users"],
};

export const metric = (name: string): string => {
  const known = METRICS[name];
  if (known) return known[0];
  const spaced = name.replaceAll("_", " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
};

/** A metric's value; all are shares, but for those that are not. */
export const metricValue = (name: string, value: number): string =>
  name === "novelty" || name.includes("loss") || Math.abs(value) > 1 ? figure(value) : percent(value, 2);

export const meaning = (name: string): string => METRICS[name]?.[1] ?? "";

export const day = (stamp: string) => new Date(stamp).toLocaleDateString("en", { dateStyle: "medium" });
