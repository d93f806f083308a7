/** The HTTP API as the page uses it: its types, and one function per call. */
import { access } from "./access.svelte";
import type { components } from "./openapi";

export type Polarity = components["schemas"]["ExplainRequest"]["polarity"];
export type Choice = components["schemas"]["TakeRequest"]["choice"];
export type Row = Record<string, number | string | null>;

/** What the service documents of itself; made by `make page` from its OpenAPI document. */
type Schemas = components["schemas"];

export type Options = Partial<
  Pick<
    Schemas["ExplainRequest"],
    "model" | "compare" | "n" | "mu" | "grounded" | "polarity" | "diversity" | "specificity" | "similar"
  >
>;
export type Goals = Partial<Pick<Schemas["RecommendRequest"], "serendipity" | "shares">>;
export type Report = Schemas["ModelReport"];
export type Model = Schemas["ModelOut"];
export type Models = Schemas["ModelsAnswer"];
export type Version = Schemas["VersionOut"];
export type Reason = Schemas["ReasonOut"];
export type Explanations = Schemas["ExplainAnswer"];
export type Recommendations = Schemas["RecommendAnswer"];
export type Said = Schemas["SaidOut"];
export type User = Schemas["UserOut"];
export type Profile = Schemas["UserAnswer"];
export type Item = Schemas["ItemOut"];
export type ItemDetail = Schemas["ItemAnswer"];
export type ItemAspect = Schemas["ItemAspect"];
export type Quote = Schemas["QuoteOut"];
export type Aspect = Schemas["AspectOut"];
export type Explanation = Schemas["ExplanationOut"];
export type ExplanationDetail = Schemas["ExplanationAnswer"];
export type Study = Schemas["StudyAnswer"];
export type NewStudy = Pick<
  Schemas["StudyRequest"],
  "title" | "a" | "b" | "cases" | "n" | "participants" | "agreement" | "ties" | "seed" | "grounded"
> & { question: string | null };
export type Results = Schemas["ResultsAnswer"];
export type Experiment = Schemas["ExperimentOut"];
export type NewExperiment = Pick<Schemas["ExperimentRequest"], "name" | "ramp" | "metric" | "planned"> & {
  arms: Schemas["ArmRequest"][];
};
export type ExperimentResults = Schemas["ExperimentResultsAnswer"];
export type Comparison = Schemas["ComparisonOut"];
export type Exposure = Schemas["ExposureOut"];
export type Working = Schemas["WorkingAnswer"];
export type Taking = Schemas["TakeView"];

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
  method?: "DELETE";
  signal?: AbortSignal;
  open?: boolean; // answered without a key
}

async function ask(path: string, { query = {}, body, method, signal, open = false }: Ask = {}): Promise<Response> {
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
      method: method ?? (body === undefined ? "GET" : "POST"),
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

export const history = (id: string, signal?: AbortSignal) =>
  json<Schemas["HistoryAnswer"]>(`v1/models/${part(id)}/history`, { signal });

export const users = (search: Search, signal?: AbortSignal) =>
  json<Schemas["UsersAnswer"]>("v1/users", { query: { ...search }, signal });

export const profile = (id: string, model: string | undefined, signal?: AbortSignal) =>
  json<Profile>(`v1/users/${part(id)}`, { query: { model }, signal });

export const items = (search: Search, signal?: AbortSignal) =>
  json<Schemas["ItemsAnswer"]>("v1/items", { query: { ...search }, signal });

export const item = (id: string, model: string | undefined, signal?: AbortSignal) =>
  json<ItemDetail>(`v1/items/${part(id)}`, { query: { model }, signal });

export const pool = (search: Search & { sort?: string; polarity?: string; aspect?: string }, signal?: AbortSignal) =>
  json<Schemas["ExplanationsAnswer"]>("v1/explanations", { query: { ...search }, signal });

export const aspects = (model: string | undefined, signal?: AbortSignal) =>
  json<Schemas["AspectsAnswer"]>("v1/aspects", { query: { model }, signal });

export const explanation = (id: string, model: string | undefined, signal?: AbortSignal) =>
  json<ExplanationDetail>(`v1/explanations/${part(id)}`, { query: { model }, signal });

// Who looks at the page is not the customer: what it asks for is never logged as shown to them.
export const explain = (pair: { user: string; item: string }, options: Options, signal?: AbortSignal) =>
  json<Explanations>("v1/explain", { body: { ...pair, ...options, log: false }, signal });

export const recommend = (user: string, options: Options & Goals & { reasons: number }, signal?: AbortSignal) =>
  json<Recommendations>("v1/recommend", { body: { user, ...options, log: false }, signal });

export const studies = (signal?: AbortSignal) =>
  json<Schemas["StudiesAnswer"]>("v1/studies", { signal });

export const createStudy = (study: NewStudy) => json<Study>("v1/studies", { body: study });

export const study = (id: string, signal?: AbortSignal) => json<Study>(`v1/studies/${part(id)}`, { signal });

export const addParticipants = (id: string, count: number) =>
  json<Study>(`v1/studies/${part(id)}/participants`, { body: { count } });

export const results = (id: string, signal?: AbortSignal) => json<Results>(`v1/studies/${part(id)}/results`, { signal });

export const download = async (id: string, file: "results.csv" | "chart.svg") =>
  (await ask(`v1/studies/${part(id)}/${file}`)).blob();

export const experiments = (signal?: AbortSignal) =>
  json<Schemas["ExperimentsAnswer"]>("v1/experiments", { signal });

export const createExperiment = (experiment: NewExperiment) =>
  json<Experiment>("v1/experiments", { body: experiment });

export const experiment = (name: string, signal?: AbortSignal) =>
  json<Experiment>(`v1/experiments/${part(name)}`, { signal });

export const ramp = (name: string, share: number) =>
  json<Experiment>(`v1/experiments/${part(name)}/ramp`, { body: { ramp: share } });

export const stop = (name: string) => json<Experiment>(`v1/experiments/${part(name)}/stop`, { body: {} });

export const experimentResults = (name: string, points: number, signal?: AbortSignal) =>
  json<ExperimentResults>(`v1/experiments/${part(name)}/results`, { query: { points }, signal });

export const exposures = (
  name: string,
  wanted: { arm?: string; event?: string; explanation?: string; before?: string; limit: number },
  signal?: AbortSignal,
) => json<Schemas["ExposuresAnswer"]>(`v1/experiments/${part(name)}/exposures`, { query: { ...wanted }, signal });

export const feedback = (signal?: AbortSignal) => json<Schemas["FeedbackAnswer"]>("v1/feedback", { signal });

export const working = (
  wanted: { by: string; event: string; experiment: string; arm: string; order: string; minimum: number; limit: number },
  signal?: AbortSignal,
) => json<Working>("v1/feedback/reasons", { query: { ...wanted }, signal });

export const taking = (token: string, signal?: AbortSignal) =>
  json<Taking>(`v1/take/${part(token)}`, { signal, open: true });

export const answer = (token: string, case_: number, choice: Choice) =>
  json<Schemas["TakeAnswer"]>(`v1/take/${part(token)}`, {
    body: { case: case_, choice },
    open: true,
  });

export const withdraw = (token: string, case_: number) =>
  json<Schemas["TakeWithdrawn"]>(`v1/take/${part(token)}/${case_}`, { method: "DELETE", open: true });
