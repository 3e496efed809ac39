// Asks again and again while the page is seen, ever more rarely while there is no answer.

const LOOK_MS = 2_000;
const BACKOFF_MS_MAX = 60_000;

export class Poll {
  // `work(signal)` asks and shows; it returns how long to wait until the next look, in ms, or nothing: two seconds.
  // `told(state)`: { heardAt, error, nextAt } after each look.
  constructor(work, told) {
    this.work = work;
    this.told = told;
    this.state = { heardAt: 0, error: null, nextAt: 0 };
    this.failures = 0;
    this.ended = false;
    this.again = false;
    this.running = null;
    this.timer = 0;
    this.seen = () => {
      if (document.hidden) clearTimeout(this.timer);
      else this.look();
    };
    document.addEventListener("visibilitychange", this.seen);
  }

  // One look at a time. What is asked for meanwhile is one more look after it.
  async look() {
    clearTimeout(this.timer);
    if (this.ended) return;
    if (this.running) {
      this.again = true;
      return;
    }
    this.running = new AbortController();
    let wait = LOOK_MS;
    try {
      wait = (await this.work(this.running.signal)) ?? LOOK_MS;
      this.failures = 0;
      this.state = { heardAt: Date.now(), error: null, nextAt: 0 };
    } catch (error) {
      if (this.ended) return;
      this.failures += 1;
      wait = Math.min(LOOK_MS * 2 ** this.failures, BACKOFF_MS_MAX);
      wait = Math.max(wait, (error.retryAfter ?? 0) * 1000);
      this.state = { ...this.state, error, nextAt: Date.now() + wait };
    } finally {
      this.running = null;
    }
    if (this.ended) return;
    this.told(this.state);
    if (this.again) wait = 0;
    this.again = false;
    if (!document.hidden) this.timer = setTimeout(() => this.look(), wait);
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    this.running?.abort();
    document.removeEventListener("visibilitychange", this.seen);
  }
}
