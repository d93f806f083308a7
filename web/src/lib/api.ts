/** The HTTP API as the page uses it: types, and one function per call. */
import { access } from "./access.svelte";

export type Polarity = "any" | "positive" | "negative";
export type Choice = "left" | "right" | "tie";
export type Row = Record<string, number | string | null>;

export interface Options {
  model?: string;
  compare?: string;
  n?: number;
  mu?: number;
  grounded?: boolean;
  polarity?: Polarity;
  diversity?: number;
  specificity?: number;
  similar?: boolean;
}

export interface Report {
  evaluation: null | {
    k: number;
    pairs: number;
    explanation: Record<string, number> | null;
    recommendation: Record<string, number> | null;
  };
  training: Row[];
  mu_curve: Row[];
  alpha_curve: Row[];
  strata: Row[];
}

export interface Model {
  id: string;
  name: string;
  kind: string;
  summary: string;
  ranks_items: boolean;
  mu: number | null;
  parameters: Record<string, unknown>;
  sizes: { users: number; items: number; explanations: number; triplets: number; pairs: number };
  sentiment: "polarity" | "ratings" | "words" | "ratings and words" | null;
  data: string;
  version: string;
  loaded: string;
  problem: string | null;
  report: Report | null;
}

export interface Models {
  default: string;
  service: { version: string; keys: boolean; studies: boolean; test_pairs: number | null; max_pairs: number };
  models: Model[];
}

export interface Reason {
  rank: number;
  explanation: string;
  text: string;
  sentence: string;
  score: number;
  parts: Record<string, number>;
  evidence: {
    item: number;
    similar_items: number | null;
    user: number;
    supporting: number;
    opposing: number;
    agreeing: number;
    mentions: number;
    user_aspect: number;
    latest: number | null;
  };
  aspect: string | null;
  polarity: number;
  quotes: { text: string; source: string | null; time: number | null }[];
  sentiment: number | null;
  other_rank?: number | null;
}

export interface Explained {
  user: string;
  item: string;
  status: "ok" | "no_reason" | "unknown_item";
  fallback: string | null;
  reasons: Reason[];
}

export interface Explanations {
  model: string;
  mu: number | null;
  results: Explained[];
  compare: null | { model: string; mu: number | null; results: Explained[] };
}

export interface Recommended {
  rank: number;
  item: string;
  title: string | null;
  score: number;
  users: number;
  reasons: Reason[];
}

export interface Recommendations {
  model: string;
  mu: number | null;
  items_by: string;
  user: string;
  fallback: string | null;
  recommendations: Recommended[];
  compare: null | { model: string; mu: number | null; reasons: Reason[][] };
}

export interface Said {
  id: string;
  text: string;
  count: number;
  sentiment: number | null;
}

export interface User {
  id: string;
  items: number;
  explanations: number;
}

export interface Profile extends User {
  history: { item: string; title: string | null; explanations: { id: string; text: string; sentiment: number | null }[] }[];
  said: Said[];
}

export interface Item {
  id: string;
  title: string | null;
  users: number;
  explanations: number;
}

export interface ItemDetail extends Item {
  said: Said[];
  similar: { id: string; title: string | null }[];
}

export interface Explanation {
  id: string;
  text: string;
  frequency: number;
  sentiment: number | null;
  aspect: string | null;
}

export interface ExplanationDetail extends Explanation {
  share: number;
  near_duplicates: { id: string; text: string; frequency: number; overlap: number }[];
  users: { total: number; top: { id: string; count: number }[] };
  items: { total: number; top: { id: string; title: string | null; count: number }[] };
}

export interface StudySummary {
  id: string;
  title: string;
  a: string;
  b: string;
  cases: number;
  n: number;
  agreement: number;
  ties: boolean;
  question: string;
  created: string;
  answers: number;
}

export interface Study extends StudySummary {
  participants: { participant: number; token: string; path: string; answered: number }[];
}

export interface NewStudy {
  title: string;
  a: string;
  b: string;
  cases: number;
  n: number;
  participants: number;
  agreement: number;
  ties: boolean;
  seed: number;
  question: string | null;
  grounded: boolean;
}

export interface Outcome {
  option: string;
  cases: number;
  share: number | null;
  low: number | null;
  high: number | null;
}

export interface Results {
  id: string;
  title: string;
  cases: number;
  answered_cases: number;
  valid_cases: number;
  answers: number;
  agreement: number;
  outcomes: Outcome[];
  confidence: number;
  kappa: number | null;
  left_share: number | null;
  per_case: {
    case: number;
    item: string;
    title: string | null;
    truth: string[];
    a: string[];
    b: string[];
    votes: Record<string, number>;
    valid: boolean;
    winner: string | null;
  }[];
}

export interface Case {
  case: number;
  item: string;
  title: string | null;
  truth: string[];
  left: string[];
  right: string[];
  choice: Choice | null;
}

export interface Taking {
  question: string;
  ties: boolean;
  total: number;
  answered: number;
  cases: Case[];
}

/** An answer that is no answer, with one line fit to show to a person. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    detail: string,
    readonly members: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

interface Ask {
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  signal?: AbortSignal;
  open?: boolean; // answered without a key
}

async function ask(path: string, { query = {}, body, signal, open = false }: Ask = {}): Promise<Response> {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (!open && access.key) headers["Authorization"] = `Bearer ${access.key}`;
  let answer: Response;
  try {
    answer = await fetch(url, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "The service does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && !open) access.wanted = true;
  const members = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  const kind = String(members["type"] ?? "").replace("urn:whyrank:problem:", "");
  throw new Problem(answer.status, kind, String(members["detail"] ?? members["title"] ?? answer.statusText), members);
}

async function json<T>(path: string, request?: Ask): Promise<T> {
  return (await ask(path, request)).json() as Promise<T>;
}

const part = encodeURIComponent;

export interface Search {
  query?: string;
  limit?: number;
  offset?: number;
  model?: string;
}

export const models = (signal?: AbortSignal) => json<Models>("v1/models", { signal });

export const users = (search: Search, signal?: AbortSignal) =>
  json<{ total: number; users: User[] }>("v1/users", { query: { ...search }, signal });

export const profile = (id: string, model: string | undefined, signal?: AbortSignal) =>
  json<Profile>(`v1/users/${part(id)}`, { query: { model }, signal });

export const items = (search: Search, signal?: AbortSignal) =>
  json<{ total: number; items: Item[] }>("v1/items", { query: { ...search }, signal });

export const item = (id: string, model: string | undefined, signal?: AbortSignal) =>
  json<ItemDetail>(`v1/items/${part(id)}`, { query: { model }, signal });

export const pool = (search: Search & { sort?: string; polarity?: string }, signal?: AbortSignal) =>
  json<{ total: number; explanations: Explanation[] }>("v1/explanations", { query: { ...search }, signal });

export const explanation = (id: string, model: string | undefined, signal?: AbortSignal) =>
  json<ExplanationDetail>(`v1/explanations/${part(id)}`, { query: { model }, signal });

export const explain = (pair: { user: string; item: string }, options: Options, signal?: AbortSignal) =>
  json<Explanations>("v1/explain", { body: { ...pair, ...options }, signal });

export const recommend = (user: string, options: Options & { reasons: number }, signal?: AbortSignal) =>
  json<Recommendations>("v1/recommend", { body: { user, ...options }, signal });

export const studies = (signal?: AbortSignal) =>
  json<{ studies: (StudySummary & { participants: number })[] }>("v1/studies", { signal });

export const createStudy = (study: NewStudy) => json<Study>("v1/studies", { body: study });

export const study = (id: string, signal?: AbortSignal) => json<Study>(`v1/studies/${part(id)}`, { signal });

export const addParticipants = (id: string, count: number) =>
  json<Study>(`v1/studies/${part(id)}/participants`, { body: { count } });

export const results = (id: string, signal?: AbortSignal) => json<Results>(`v1/studies/${part(id)}/results`, { signal });

export const download = async (id: string, file: "results.csv" | "chart.svg") =>
  (await ask(`v1/studies/${part(id)}/${file}`)).blob();

export const taking = (token: string, signal?: AbortSignal) =>
  json<Taking>(`v1/take/${part(token)}`, { signal, open: true });

export const answer = (token: string, case_: number, choice: Choice) =>
  json<{ case: number; choice: Choice; answered: number; total: number }>(`v1/take/${part(token)}`, {
    body: { case: case_, choice },
    open: true,
  });
