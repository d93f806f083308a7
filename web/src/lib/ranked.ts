/** Recommendations and explanations of one item in the one form that is shown: cards with reasons. */
import * as api from "./api";

export interface Card {
  item: string;
  title: string | null;
  users: number | null;
  reasons: api.Reason[];
  others: api.Reason[] | undefined; // of the model beside it
}

export interface Ranked {
  cards: Card[];
  itemsBy: string | null;
  fallback: string | null;
  ndcg?: number | null; // with goals: what they leave of the list by score alone
}

export const REASONS_OF_ONE = 10;

export async function recommended(
  user: string,
  options: api.Options & api.Goals,
  size: { n: number; reasons: number },
  signal: AbortSignal,
): Promise<Ranked> {
  const answer = await api.recommend(user, { ...options, ...size }, signal);
  return {
    itemsBy: answer.items_by,
    ndcg: answer.ndcg ?? null,
    fallback: answer.fallback,
    cards: answer.recommendations.map(({ item, title, users, reasons }, at) => ({
      item,
      title,
      users,
      reasons,
      others: answer.compare?.reasons[at],
    })),
  };
}

export async function explained(user: string, item: string, options: api.Options, signal: AbortSignal): Promise<Ranked> {
  const answer = await api.explain({ user, item }, { ...options, n: REASONS_OF_ONE }, signal);
  return {
    itemsBy: null,
    fallback: answer.results[0]?.fallback ?? null,
    cards: answer.results.map(({ reasons }, at) => ({
      item,
      title: null,
      users: null,
      reasons,
      others: answer.compare?.results[at]?.reasons,
    })),
  };
}
