// What happened in a partition: its events, read back from the numbered files when the user asks, and followed from
// there on while the page is seen.

import { follow, serverNow } from "./api.js";
import { columns } from "./charts.js";
import { badge, button, h } from "./dom.js";
import { Listing } from "./lists.js";
import { counted, share, size, time } from "./words.js";

const HOUR = 3_600_000;
const CHOICES = [
  [HOUR, "hour"],
  [24 * HOUR, "day"],
  [168 * HOUR, "week"],
];
const COLUMNS = 24;
const EVENTS_MAX = 5_000;
const NOBODY = "0".repeat(16); // no server's name: so the files are read back

const bytesOf = (amount) => amount?.bytes ?? 0; // what is 0 is left out
const amount = (of) => `${counted(of?.segments ?? 0, "segment")}, ${size(bytesOf(of))}`;

function claim({ epoch, owner, former }) {
  const whom = former === owner ? " again" : former ? ` fenced ${former}` : epoch === 1 ? ", the first owner" : "";
  return `epoch ${epoch}: ${owner}${whom}`;
}

// By the type of the event: the kind of its badge, its word, and what is said. Others are of little interest here.
const SAID = {
  gap: ["off", "gap", () => "what came before is not known any more"],
  appended: ["due", "append", ({ size: of, offset }) => `${amount(of)}, from offset ${offset ?? 0}`],
  claimed: ["warn", "claim", claim],
  owner_left: ["off", "left", ({ owner }) => owner],
  job_requested: ["due", "request", ({ job }) => job],
  job_admitted: ["due", "plan", ({ job, kind, reason }) => `${kind} ${job}: ${reason}`],
  attempt_began: ["run", "attempt", ({ job, attempt, worker }) => `${job}, attempt ${attempt}, by ${worker}`],
  attempt_ended: ["warn", "attempt ended", ({ job, error }) => `${job}: ${error ? error.reason : "it was stopped"}`],
  compacted: ["ok", "compaction", ({ job, replaced, made }) => `${job}: ${amount(replaced)} became ${amount(made)}`],
  segments_dropped: ["ok", "drop", ({ dropped }) => amount(dropped)],
  cancel_requested: ["off", "cancel", ({ job }) => job],
  floor_raised: ["off", "log start", ({ log_start_offset: to }) => `offset ${to}`],
  quarantined: ["bad", "quarantine", ({ reason, segment }) => `${segment}: ${reason}`],
  quarantine_lifted: ["ok", "quarantine lifted", ({ segment }) => segment],
  garbage_forgotten: ["off", "collection", ({ forgotten }) => amount(forgotten)],
  checkpoint_created: ["off", "checkpoint", ({ name }) => name],
  checkpoint_removed: ["off", "checkpoint removed", ({ name }) => name],
};

export class Happened {
  constructor(topic, partition) {
    this.place = { topic, partition };
    this.events = new Map(); // by id
    this.cursor = null; // null: nobody asked yet
    this.since = 0;
    this.chosen = 1;
    this.problem = "";
    this.reading = null;
    this.list = new Listing("happened");
    this.seen = () => (document.hidden ? this.reading?.abort() : this.cursor && this.read());
  }

  get claims() {
    return [...this.events.values()].filter(({ event }) => event === "claimed").map((e) => ({ former: "", ...e }));
  }

  start(ui) {
    this.end();
    this.events.clear();
    this.ui = ui;
    this.since = Math.round(serverNow() - CHOICES[this.chosen][0]);
    this.cursor = `${NOBODY}.0.${this.since}`;
    document.addEventListener("visibilitychange", this.seen);
    this.read();
  }

  end() {
    document.removeEventListener("visibilitychange", this.seen);
    this.reading?.abort();
  }

  async read() {
    const reading = new AbortController();
    this.reading = reading;
    this.problem = "";
    this.answered = false;
    this.ui.redraw();
    try {
      await this.ui.guarded(() =>
        follow(this.place, this.cursor, (events, cursor) => this.told(events, cursor), reading.signal),
      );
      this.problem = "The server ended the stream; read it again to go on.";
    } catch (error) {
      if (error.name !== "AbortError") this.problem = error.message;
    }
    if (this.reading === reading) this.reading = null;
    this.ui.redraw();
  }

  told(events, cursor) {
    this.answered = true;
    this.cursor = cursor;
    for (const event of events) if (event.id && !(event.at_ms < this.since)) this.events.set(event.id, event);
    for (const id of this.events.keys()) {
      if (this.events.size <= EVENTS_MAX) break;
      this.events.delete(id);
    }
    this.ui.redraw();
  }

  draw(ui) {
    const change = (event) => {
      this.chosen = Number(event.target.value);
    };
    const options = CHOICES.map(([, name], index) =>
      h("option", { value: index, selected: index === this.chosen }, name),
    );
    const tools = h(
      "div",
      { class: "row", key: "happened-tools" },
      h("label", { for: "happened-since" }, "The last"),
      h("select", { id: "happened-since", change }, options),
      button(this.cursor ? "Read again" : "Read what happened", () => this.start(ui)),
      h("span", { class: "quiet" }, "It reads the partition's numbered files of that time, at most 2,000."),
    );
    const known = [...this.events.values()].reverse().sort((one, other) => other.at_ms - one.at_ms);
    const told = known.filter(({ event }) => SAID[event]);
    return [
      tools,
      h("p", { class: "problem", role: "alert", key: "happened-problem" }, this.problem),
      this.cursor && !this.answered && !this.problem ? h("p", { key: "happened-wait" }, "Reading…") : null,
      this.answered && !told.length ? h("p", { class: "quiet", key: "happened-none" }, "Nothing happened.") : null,
      known.length ? written(known, this.since) : null,
      told.length ? h("div", { key: "happened-list" }, this.rows(told, ui)) : null,
    ];
  }

  rows(told, ui) {
    const row = (e) => {
      const [kind, word, text] = SAID[e.event];
      return { key: e.id, cells: [time(e.at_ms), badge(kind, word), text(e)] };
    };
    const textOf = (e) => `${SAID[e.event][1]} ${SAID[e.event][2](e)}`;
    return this.list.draw("What happened, the latest first", EVENTS, told, { row, textOf, ui });
  }
}

const EVENTS = [
  ["Time", ""],
  ["What", ""],
  ["More", ""],
];

// Write amplification: the bytes that were written for each byte that was appended.
function written(events, since) {
  const to = Math.max(serverNow(), events[0].at_ms);
  const from = Math.max(since, events.at(-1).at_ms);
  const groups = Array.from({ length: COLUMNS }, () => ({ appended: 0, made: 0 }));
  for (const e of events) {
    const group = groups[Math.min(Math.floor(((e.at_ms - from) / Math.max(to - from, 1)) * COLUMNS), COLUMNS - 1)];
    if (e.event === "appended") group.appended += bytesOf(e.size);
    if (e.event === "compacted") group.made += bytesOf(e.made);
  }
  const sum = (name) => groups.reduce((total, group) => total + group[name], 0);
  const [appended, made] = [sum("appended"), sum("made")];
  if (!appended && !made) return null;
  const said = appended
    ? `${((appended + made) / appended).toFixed(2)} bytes were written for each byte appended (${share((100 * made) / appended)} again by compactions).`
    : "Compactions wrote, and nothing was appended.";
  const drawn = groups.map((group) => ({
    title: `${size(group.appended)} appended, ${size(group.made)} by compactions`,
    parts: [
      { kind: "young", amount: group.appended },
      { kind: "clean", amount: group.made },
    ],
  }));
  const parts = [
    { kind: "young", name: "appended", shown: size(appended) },
    { kind: "clean", name: "written by compactions", shown: size(made) },
  ];
  return columns("Write amplification.", said, drawn, parts, { top: size, from: time(from), to: "now" });
}
