// Garbage: what a collection would delete, object by object with its reason; and a collection.

import { ask, serverNow } from "./api.js";
import { confirmed } from "./dialogs.js";
import { badge, button, failures, h, section, table } from "./dom.js";
import { count, counted, size, time } from "./words.js";

const SHOWN_MAX = 300;

export function garbageView() {
  let report = null;
  let at = 0; // when it was answered
  let problem = "";
  let busy = false;
  let sweep = false;

  async function dryRun(ui) {
    problem = "";
    busy = true;
    ui.redraw();
    try {
      report = await ui.guarded(() => ask("gc", { dry_run: true, sweep }));
      at = serverNow();
    } catch (error) {
      report = null;
      problem = error.message;
    }
    busy = false;
    ui.redraw();
  }

  function run(ui) {
    const deleted = objects(report, "deleted");
    return confirmed({
      title: "Collect garbage?",
      text: `By the dry run this deletes ${counted(deleted.length, "object")}, ${size(sum(deleted))}. What has become garbage since is deleted too. Deleted objects cannot be brought back.`,
      verb: "Delete them",
      danger: true,
      work: async () => {
        report = await ask("gc", { dry_run: false, sweep });
        at = serverNow();
        ui.redraw();
        const gone = objects(report, "deleted");
        return `Deleted ${counted(gone.length, "object")}, ${size(sum(gone))}`;
      },
    });
  }

  function draw(_, ui) {
    const change = (event) => {
      sweep = event.target.checked;
      report = null; // it was about something else
      ui.redraw();
    };
    return [
      h(
        "p",
        { key: "what" },
        "What was replaced goes an hour after a collection has first found it replaced, unless a checkpoint or a job still needs it. If no collection runs, the hour does not begin. A dry run deletes nothing, begins no hour, and gives a reason for each object.",
      ),
      h(
        "div",
        { class: "row", key: "tools" },
        button(busy ? "Looking…" : "Dry run", () => dryRun(ui), { class: "primary", disabled: busy }),
        h(
          "label",
          {},
          h("input", { type: "checkbox", change }),
          " also sweep: list all objects, and find what killed processes left",
        ),
        report?.dry_run && (report.temporaries || objects(report, "deleted").length)
          ? button("Collect…", () => run(ui), { class: "danger" })
          : null,
      ),
      h("p", { key: "problem", class: "problem", role: "alert" }, problem),
      h("div", { key: "report", "aria-live": "polite", "aria-busy": String(busy) }, report ? shown(report, at) : null),
    ];
  }

  return { title: "Garbage", draw };
}

const objects = (report, list) =>
  report.partitions.flatMap((each) => each[list].map((object) => ({ ...object, place: placeText(each) })));

const placeText = (each) => (each.partition === null ? each.topic : `${each.topic}/${each.partition}`);

const sum = (list) => list.reduce((total, each) => total + each.bytes, 0);

/** No object is empty: only a sweep, which lists them, knows the sizes of numbered files. */
const weight = (bytes) => (bytes ? size(bytes) : "not counted");

const COLUMNS = [
  ["Object", ""],
  ["Partition", ""],
  ["Bytes", "number"],
  ["Reason", ""],
];

function shown(report, at) {
  const deleted = objects(report, "deleted");
  const kept = objects(report, "kept");
  const waiting = report.partitions.filter((each) => each.waiting || each.checkpoints_expired);
  const faults = report.partitions.filter((each) => each.fault).map((each) => ({ ...each, partition: each.partition }));
  return [
    h(
      "p",
      { class: "answer" },
      report.dry_run ? badge("due", "dry run") : badge("ok", "collected"),
      summary(report, deleted, waiting),
    ),
    h("p", { class: "quiet" }, `At ${time(at)}.`, nextText(report.partitions, at)),
    failures(faults),
    report.fault ? h("p", { class: "problem" }, report.fault.message) : null,
    section(
      report.dry_run ? "Would be deleted" : "Deleted",
      byReason(deleted),
      list(report.dry_run ? "Would be deleted" : "Deleted", deleted),
    ),
    kept.length ? section("Kept for now", byReason(kept), list("Kept", kept)) : null,
    waiting.length
      ? section(
          "Retired segments",
          h(
            "details",
            {},
            h("summary", {}, counted(waiting.length, "partition")),
            table("Retired segments", WAITING, waiting.map((each) => waitingRow(each, at))),
          ),
        )
      : null,
  ];
}

// In a dry run, what may go already is among what would be deleted.
const later = (next, at) => next !== null && next > at;

function nextText(partitions, at) {
  const known = partitions.map(({ next_ms: next }) => next).filter((next) => later(next, at));
  return known.length ? ` The next retired segments may go from ${time(Math.min(...known))} on.` : "";
}

const WAITING = [
  ["Partition", ""],
  ["Not collected yet", "number"],
  ["The next may go", ""],
  ["Checkpoints expired", "number"],
];

const waitingRow = (each, at) => ({
  key: placeText(each),
  cells: [
    placeText(each),
    count(each.waiting),
    later(each.next_ms, at) ? `from ${time(each.next_ms)} on` : "hour not begun, or pinned",
    count(each.checkpoints_expired),
  ],
});

function summary(report, deleted, waiting) {
  const verb = report.dry_run ? "would delete" : "deleted";
  const waits = waiting.reduce((total, each) => total + each.waiting, 0);
  const left = report.temporaries
    ? `; ${counted(report.temporaries, "file")} that killed processes left half written`
    : "";
  return ` ${verb} ${counted(deleted.length, "object")}, ${size(sum(deleted))}${left}; ${counted(waits, "retired segment")} cannot be collected yet.`;
}

const REASONS = [
  ["Reason", ""],
  ["Objects", "number"],
  ["Bytes", "number"],
];

const BOUNDARY = /[;:] (the )?boundary (is )?\d+/;

function byReason(list) {
  const reasons = new Map();
  for (const each of list) {
    const reason = each.reason.replace(/\b(manifest|compactor file) \d+/g, "a $1").replace(BOUNDARY, "");
    const [number, bytes] = reasons.get(reason) ?? [0, 0];
    reasons.set(reason, [number + 1, bytes + each.bytes]);
  }
  const rows = [...reasons].map(([reason, [number, bytes]]) => ({
    key: reason,
    cells: [reason, count(number), weight(bytes)],
  }));
  return rows.length ? table("By reason", REASONS, rows) : h("p", { class: "quiet" }, "Nothing.");
}

function list(caption, all) {
  if (!all.length) return null;
  const rows = all.slice(0, SHOWN_MAX).map((each) => ({
    key: each.key,
    cells: [h("code", { class: "break" }, each.key), each.place, weight(each.bytes), each.reason],
  }));
  const left = all.length - rows.length;
  return h(
    "details",
    {},
    h("summary", {}, `${caption}: ${counted(all.length, "object")}, one by one`),
    table(caption, COLUMNS, rows),
    left ? h("p", { class: "quiet" }, `and ${count(left)} more`) : null,
  );
}
