/** Something asked of the service: what came, what went wrong, and whether it is under way. */
import { Problem } from "./api";

export class Resource<T> {
  data = $state.raw<T | undefined>();
  problem = $state.raw<Problem | undefined>();
  busy = $state(false);
  milliseconds = $state<number | undefined>();
  #under: AbortController | undefined;

  /** Ask anew: what is under way is dropped, a problem is forgotten, and the last answer stays until the next comes. */
  async load(ask: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.#under?.abort();
    const under = (this.#under = new AbortController());
    const start = performance.now();
    this.busy = true;
    this.problem = undefined;
    try {
      const data = await ask(under.signal);
      if (under.signal.aborted) return;
      this.data = data;
      this.milliseconds = performance.now() - start;
    } catch (error) {
      if (under.signal.aborted) return;
      this.problem = error instanceof Problem ? error : new Problem(0, "page", String(error));
    }
    this.busy = false;
  }

  /** Forget what came, for instance when another user is asked about. */
  clear() {
    this.#under?.abort();
    this.data = this.problem = this.milliseconds = undefined;
    this.busy = false;
  }
}
