// The requests of this page. Each stands in CALLS as the server's table of routes has it; names after "?" are its
// arguments, which go to the query of a GET or DELETE, and to the JSON body of a POST.

const CALLS = {
  overview: "GET /v1/overview?wait_ms",
  topics: "GET /v1/topics?limit&cursor",
  topic: "GET /v1/topics/{topic}",
  pause: "POST /v1/topics/{topic}/pause",
  resume: "POST /v1/topics/{topic}/resume",
  explainTopic: "GET /v1/topics/{topic}/explain?limit&cursor",
  topicCheckpoints: "GET /v1/topics/{topic}/checkpoints?owner&limit&cursor",
  partition: "GET /v1/topics/{topic}/partitions/{partition}",
  explain: "GET /v1/topics/{topic}/partitions/{partition}/explain",
  manifest: "GET /v1/topics/{topic}/partitions/{partition}/manifest",
  retry: "POST /v1/topics/{topic}/partitions/{partition}/retry",
  submit: "POST /v1/topics/{topic}/partitions/{partition}/compactions?sources",
  key: "GET /v1/topics/{topic}/key?key_base64&limit&values",
  compactions: "GET /v1/compactions?topic&partition&status&limit&cursor",
  compaction: "GET /v1/compactions/{topic}/{partition}/{job}",
  cancel: "DELETE /v1/compactions/{topic}/{partition}/{job}",
  events: "GET /v1/events?topic&partition",
  gc: "POST /v1/gc?dry_run&sweep",
};

const TOKEN = "lithify.token";
const PAGES_MAX = 10;

let skew = 0; // the server's clock less this one's, in ms

export const serverNow = () => Date.now() + skew;

export class Refused extends Error {
  // A problem document (RFC 9457); status 0: there was no answer.
  constructor(status, detail, retryAfter = 0) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter; // seconds
  }
}

export const token = {
  get() {
    try {
      return sessionStorage.getItem(TOKEN) ?? "";
    } catch {
      return this.kept ?? "";
    }
  },
  set(value) {
    this.kept = value;
    try {
      if (value) sessionStorage.setItem(TOKEN, value);
      else sessionStorage.removeItem(TOKEN);
    } catch {
      // a browser may refuse storage; then it is kept until the page is left
    }
  },
};

function request(name, values) {
  const [verb, template] = CALLS[name].split(" ");
  const [pattern, known = ""] = template.split("?");
  const path = pattern.replace(/{(\w+)}/g, (_, each) => encodeURIComponent(values[each]));
  const given = known.split("&").filter((each) => values[each] !== undefined);
  if (verb === "POST") {
    const body = Object.fromEntries(given.map((each) => [each, values[each]]));
    return { verb, path, body: given.length ? JSON.stringify(body) : undefined };
  }
  const query = new URLSearchParams();
  for (const each of given) for (const value of [values[each]].flat()) query.append(each, value);
  return { verb, path: query.size ? `${path}?${query}` : path, body: undefined };
}

const credentials = () => (token.get() ? { Authorization: `Bearer ${token.get()}` } : {});

// Raises Refused. `signal` ends it with an AbortError.
export async function ask(name, values = {}, { signal, headers = {} } = {}) {
  const { verb, path, body } = request(name, values);
  const all = { Accept: "application/json", ...credentials(), ...headers };
  if (body !== undefined) all["Content-Type"] = "application/json";
  let answer;
  let found;
  try {
    answer = await fetch(`.${path}`, { method: verb, headers: all, body, signal, credentials: "omit" });
    found = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server does not answer");
  }
  const date = Date.parse(answer.headers.get("Date") ?? "");
  // A Date has whole seconds: a clock that differs by less than two is taken for the same.
  if (date) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  let content = null;
  try {
    content = JSON.parse(found);
  } catch {
    if (answer.ok) throw new Refused(answer.status, "the answer is not JSON: is this lithify's server?");
  }
  if (answer.ok) return content;
  throw refused(answer, content);
}

function refused(answer, content) {
  const detail = content?.detail ?? `the server answered ${answer.status}`;
  return new Refused(answer.status, detail, Number(answer.headers.get("Retry-After")) || 0);
}

// What follows the event `cursor`, as server-sent events have it: `told(events, cursor)`, until `signal` ends it. An
// EventSource could not send the token. Raises Refused.
export async function follow(values, cursor, told, signal) {
  const headers = { Accept: "text/event-stream", "Last-Event-ID": cursor, ...credentials() };
  let answer;
  try {
    answer = await fetch(`.${request("events", values).path}`, { headers, signal, credentials: "omit" });
    if (!answer.ok) throw refused(answer, await answer.json().catch(() => null));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const blocks = (rest + read.value).split("\n\n");
      rest = blocks.pop();
      const fields = blocks.map((block) => new Map(block.split("\n").map(field)));
      const events = fields.filter((each) => each.has("data")).map((each) => JSON.parse(each.get("data")));
      const last = fields.findLast((each) => each.has("id"))?.get("id");
      if (fields.length) told(events, last ?? cursor);
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Refused) throw error;
    throw new Refused(0, "the stream of events broke off");
  }
}

function field(line) {
  const colon = line.indexOf(": ");
  return [line.slice(0, colon), line.slice(colon + 2)];
}

// All pages of a list, up to `pages` of them; `more`: there would be others.
export async function askAll(name, values = {}, { pages = PAGES_MAX, ...options } = {}) {
  const items = [];
  const failed = [];
  let cursor;
  for (let page = 0; page < pages; page += 1) {
    const found = await ask(name, { ...values, limit: 1000, cursor }, options);
    items.push(...found.items);
    if (page === 0) failed.push(...(found.failed ?? []));
    cursor = found.next ?? undefined;
    if (!cursor) break;
  }
  return { items, failed, more: Boolean(cursor) };
}

// A name for a request, so that its repetition is known as such. (randomUUID is only for pages of https.)
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
