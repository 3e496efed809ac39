// Compactions: how far they are, what they cost, their attempts; and cancelling them.

import { ask, serverNow } from "./api.js";
import { confirmed } from "./dialogs.js";
import { badge, button, facts, h, partitionLink, svg, table } from "./dom.js";
import { ago, count, counted, isActive, placeOf, priceText, share, size, span, statusText, time } from "./words.js";

const KINDS = { submitted: "due", in_progress: "run", completed: "ok", failed: "bad", cancelled: "off" };
const CELLS_MAX = 40;
const SECOND = 1_000;
const SLOWER = 3; // times as long as a range took before

// Each as an article. `ui` null: only shown, with the name of its partition.
export function jobRows(jobs, ui) {
  return h(
    "div",
    { class: "jobs" },
    jobs.map((job) => jobCard(job, ui)),
  );
}

export const jobBadge = (job) =>
  job.abandoned ? badge("warn", "left undone") : badge(KINDS[job.status] ?? "due", statusText(job.status));

function jobCard(job, ui) {
  const { topic, partition, job: id } = placeOf(job);
  const name = ui ? h("code", {}, id) : [partitionLink(topic, partition), " ", h("code", {}, id)];
  return h(
    "article",
    { key: job.id, class: "job", "aria-label": `Compaction ${job.id}` },
    h(
      "p",
      { class: "row" },
      jobBadge(job),
      h(
        "span",
        { class: "grow" },
        name,
        job.kind ? ` ${job.kind}` : "",
        job.origin === "manual" ? " (by request)" : "",
      ),
      ui && isActive(job) ? button("Cancel", () => cancel(job, ui), { "aria-label": `Cancel compaction ${id}` }) : null,
    ),
    why(job) ? h("p", {}, why(job)) : null,
    job.chosen && job.chosen !== job.reason ? h("p", { class: "quiet" }, `chosen because: ${job.chosen}`) : null,
    job.status === "submitted" ? null : progress(job),
    ui ? details(job) : null,
  );
}

// A reason that counts from when the job was created says so.
const dated = ({ reason, created_at: at }) => (/ (ago|old)$/.test(reason) ? `${reason}, as of ${time(at)}` : reason);

// What became of it, or why it is there; and what it waits for.
export function why(job) {
  const moved = job.kind === "relocate" && job.status === "completed";
  const said = job.error
    ? `${job.error.category}: ${job.error.reason}`
    : moved
      ? `moved ${size(job.counts.bytes_written)} to ${job.destination}`
      : dated(job);
  const waits = job.paused && isActive(job) ? "waits for the topic to be resumed" : "";
  return [said, waits].filter(Boolean).join("; ");
}

const lasts = new Map(); // of jobs that this page saw running: { done, at }

// When a range was last seen to end, or when this page first saw the job.
function lastEnd({ id, progress: { ranges_done: done } }, now) {
  if (lasts.get(id)?.done !== done) lasts.set(id, { done, at: now });
  return lasts.get(id).at;
}

// By the server's estimate. If no range has ended for much longer than one took before, that recedes from look to look,
// so then it is not told.
function ending(job, now) {
  if (!isActive(job)) {
    lasts.delete(job.id);
    return null;
  }
  const { estimated_completion: eta } = job.progress;
  const at = lastEnd(job, now);
  const attempt = job.attempts.at(-1);
  if (job.abandoned || eta === null || !attempt?.ranges_done) return null;
  const each = (at - attempt.started_at_ms) / attempt.ranges_done;
  if (now - at > SLOWER * Math.max(each, SECOND)) return `no key range has ended for ${span(now - at)}`;
  return `ends in about ${span(Math.max(eta - now, 0))} (${time(eta)})`;
}

// The key ranges that are done, as boxes that fill, if there are not too many.
function progress(job) {
  const percent = job.progress.completion_percentage;
  const { ranges, ranges_done: done } = job.progress;
  const said = [
    ranges ? `${done} of ${counted(ranges, "key range")}, ${share(percent)}` : share(percent),
    isActive(job) ? job.phase : null,
    job.abandoned || null,
    ending(job, serverNow()),
    isActive(job) && job.started_at ? `started ${ago(job.started_at, serverNow())}` : null,
    job.attempts.length > 1 ? `attempt ${job.attempts.at(-1).number}` : null,
    job.completed_at ? `ended ${ago(job.completed_at, serverNow())}` : null,
  ];
  return h(
    "div",
    { class: "progress" },
    ranges && ranges <= CELLS_MAX
      ? cells(ranges, done)
      : h("progress", { max: 100, value: percent, "aria-label": "done" }),
    h("span", { class: "quiet" }, said.filter(Boolean).join(" · ")),
  );
}

function cells(ranges, done) {
  const step = 100 / ranges;
  const gap = Math.min(1, step / 5);
  const box = (_, index) =>
    svg("rect", { x: index * step, y: 0, width: step - gap, height: 10, class: index < done ? "done" : "open" });
  return svg(
    "svg",
    { class: "cells", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    Array.from({ length: ranges }, box),
  );
}

function details(job) {
  const { counts, estimate } = job;
  const dropped = [
    [counts.superseded, "superseded"],
    [counts.expired_tombstones, "expired tombstones"],
    [counts.below_floor, "below the log start"],
    [counts.keyless, "without a key"],
  ];
  const lost = dropped.filter(([number]) => number).map(([number, why]) => `${count(number)} ${why}`);
  const attempts = job.attempts.map((each) => ({
    key: each.number,
    cells: [
      each.number,
      each.epoch,
      each.worker,
      time(each.started_at_ms),
      each.ended_at_ms === null ? "still running" : span(each.ended_at_ms - each.started_at_ms),
      each.ranges_done,
      each.error ? `${each.error.category}: ${each.error.reason}` : "",
    ],
  }));
  return h(
    "details",
    { key: "details" },
    h("summary", {}, "Sources, counts and attempts"),
    facts([
      ["reads", `${counted(job.progress.total_input_segments, "segment")} of ${counted(job.total_sources, "source")}`],
      ["rows", `${count(counts.rows_in)} in, ${count(counts.rows_out)} out`],
      ["dropped", lost.join(", ") || "nothing"],
      ["bytes", `${size(counts.bytes_read)} read, ${size(counts.bytes_written)} written`],
      ["requests", `${count(counts.gets)} GET or HEAD, ${count(counts.puts)} PUT or POST, by its workers`],
      ["processor time", span(counts.cpu_ms)],
      ["memory", job.peak_memory_bytes ? `${size(job.peak_memory_bytes)} in the largest worker` : ""],
      [
        "expected",
        estimate ? `${counted(estimate.output_rows, "row")}, ${size(estimate.output_bytes)}: ${estimate.basis}` : "",
      ],
      ["price", job.price ? priceText(job.price) : ""],
      [job.kind === "relocate" ? "moves to" : "makes run", job.destination],
      ["created", time(job.created_at)],
      ["started", time(job.started_at)],
      ["ended", time(job.completed_at)],
    ]),
    attempts.length
      ? h(
          "div",
          { class: "wide", tabindex: "0", role: "group", "aria-label": "a table that scrolls" },
          table("Attempts", ATTEMPTS, attempts, { shown: true }),
        )
      : null,
    h("p", { class: "quiet break" }, `sources: ${job.sources.join(", ") || "everything"}`),
  );
}

const ATTEMPTS = [
  ["Attempt", "number"],
  ["Epoch", "number"],
  ["Worker", ""],
  ["Started", ""],
  ["Took", "number"],
  ["Ranges", "number"],
  ["Error", ""],
];

function cancel(job, ui) {
  const { topic, partition, job: id } = placeOf(job);
  return confirmed({
    title: "Cancel this compaction?",
    text: [`${job.id}: ${job.reason}`, "Its compactor ends it. What it has finished is not kept; no data is lost."],
    verb: "Cancel it",
    danger: true,
    work: async () => {
      await ask("cancel", { topic, partition, job: id });
      ui.again();
      return `Asked to cancel ${job.id}`;
    },
  });
}

export const JOBS = [
  ["Compaction", ""],
  ["State", ""],
  ["Kind", "word"],
  ["Done", "number"],
  ["Rows in", "number"],
  ["Rows out", "number"],
  ["Created", "number"],
  ["Why", ""],
];

export function jobRow(job) {
  const { topic, partition, job: id } = placeOf(job);
  return {
    key: job.id,
    cells: [
      [partitionLink(topic, partition), " ", h("code", { class: "id" }, id)],
      jobBadge(job),
      job.kind ?? "",
      share(job.progress.completion_percentage),
      count(job.counts.rows_in),
      count(job.counts.rows_out),
      ago(job.created_at, serverNow()),
      why(job),
    ],
  };
}
