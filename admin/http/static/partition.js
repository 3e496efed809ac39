// One partition: its shape, what happens next and why, its compactions, consumers, pins and segments.

import { bytesByAge, pictures, readAndWritten } from "./ages.js";
import { ask, askAll, newKey, serverNow } from "./api.js";
import { confirmed } from "./dialogs.js";
import { badge, button, facts, h, section, table, topicLink } from "./dom.js";
import { explained, keys } from "./explained.js";
import { Happened } from "./happened.js";
import { homeName, spread } from "./homes.js";
import { jobRows } from "./jobs.js";
import { shape } from "./shape.js";
import { quarantined } from "./quarantine.js";
import { abandoned, isPaused, standing } from "./standing.js";
import { timeline } from "./timeline.js";
import { consumers, pauseButton } from "./topic.js";
import { ago, count, counted, isActive, size, time } from "./words.js";

const FINISHED_SHOWN = 5;
const SEGMENTS_SHOWN = 500;

export function partitionView(name, number) {
  let manifest = null; // large, so it is asked for only when there is a later one
  let jobsShown = FINISHED_SHOWN;
  const happened = new Happened(name, number);
  return {
    title: `${name}/${number}`,
    load: async (signal) => {
      const place = { topic: name, partition: number };
      const [topic, partition, next, jobs] = await Promise.all([
        ask("topic", { topic: name }, { signal }),
        ask("partition", place, { signal }),
        ask("explain", place, { signal }),
        askAll("compactions", place, { signal }),
      ]);
      if (manifest?.id !== partition.manifest_id) manifest = await ask("manifest", place, { signal });
      for (const job of jobs.items) {
        if (job.status === "in_progress") job.abandoned = abandoned(next);
        job.paused = isPaused(topic);
      }
      return { topic, partition, next, jobs: jobs.items, manifest };
    },
    wait: ({ topic }) => Math.max(2000, topic.partitions.length * 100),
    draw: (data, ui) => {
      const more = () => {
        jobsShown = Infinity;
        ui.redraw();
      };
      return draw(data, ui, jobsShown, more, happened);
    },
    end: () => happened.end(),
  };
}

function draw({ topic, partition, next, jobs, manifest }, ui, jobsShown, more, happened) {
  const stands = standing(topic, partition, jobs);
  const finished = jobs.filter((job) => !isActive(job)).sort((one, other) => other.created_at - one.created_at);
  const shown = [...jobs.filter(isActive), ...finished.slice(0, jobsShown)];
  const left = finished.length - jobsShown;
  const stopped = partition.quarantine !== null;
  return [
    h(
      "div",
      { class: "row", key: "tools" },
      h(
        "p",
        { class: "grow" },
        badge(stands.kind, stands.word),
        stands.why && !stopped ? ` ${stands.why}` : null,
      ),
      button("Submit a compaction", () => submit(partition, ui)),
    ),
    h(
      "p",
      { class: "row", key: "topic" },
      h("span", {}, "of topic ", topicLink(topic.topic), `, ${counted(topic.partitions.length, "partition")}`),
      pauseButton(topic, ui),
    ),
    stopped ? quarantined(partition, manifest, ui) : null,
    section(
      "State",
      facts([
        ["records", fromStart(partition, "rows", count)],
        ["size", fromStart(partition, "bytes", size)],
        ["offsets", `${count(partition.log_start_offset)} to ${count(partition.next_offset)}`],
        ["cleaned to", count(partition.cleaned_to)],
        [
          "segments",
          `${count(partition.l0.length)} in L0; ${count(segmentsOf(partition).length - partition.l0.length)} in ${counted(partition.runs.length, "run")}`,
        ],
        ["homes", spread(partition)],
        ["dirty", `${size(partition.dirty_bytes)} (ratio ${partition.dirty_ratio.toFixed(2)})`],
        ["last compacted", ago(partition.last_compacted_at, serverNow())],
        ["manifest", count(partition.manifest_id)],
        ["epoch", count(partition.compactor_epoch)],
        ["retention", partition.retention_pinned ?? ""],
      ]),
    ),
    section("What happens next, and why", explained(next)),
    section("Shape", h("div", { class: "shape", key: "shape" }, shape(partition, manifest, shapeWidth()))),
    section(
      "Compactions",
      shown.length ? jobRows(shown, ui) : h("p", { class: "quiet" }, "None is remembered."),
      left > 0 ? button(`Show ${count(left)} more`, more) : null,
    ),
    section(
      "Bytes and work",
      pictures(bytesByAge(partition, serverNow()), readAndWritten(jobs)),
      timeline(jobs, happened.claims, shapeWidth(), serverNow()),
    ),
    section("What happened", happened.draw(ui)),
    section("Consumers", consumers([partition])),
    section("Pins", pins(manifest)),
    section("Segments", segments(partition)),
  ];
}

// Of what is stored: how much of it lies from the log start on, if some lies below. Whether it can be read, a page
// cannot know.
export function fromStart(partition, what, shown) {
  const [logical, all] = [partition[`logical_${what}`], partition[what]];
  if (partition.logical_rows === partition.rows) return shown(all);
  return `${shown(all)} stored, of which ${shown(logical)} from the log start on`;
}

const segmentsOf = (partition) => [...partition.l0, ...partition.runs.flatMap((run) => run.segments)];

const shapeWidth = () => {
  const drawn = document.querySelector(".shape")?.clientWidth ?? document.getElementById("main").clientWidth - 32;
  return Math.max(280, drawn);
};

function submit(partition, ui) {
  const place = { topic: partition.topic, partition: partition.partition };
  const key = newKey(); // repeated if the answer is lost, so that it is done once
  const units = [
    ...partition.l0.map((each) => [each.id, `L0 ${each.id}, ${size(each.bytes)}`]),
    ...partition.runs.map((run) => [run.id, `run ${run.id}, ${counted(run.segments.length, "segment")}`]),
  ];
  const boxes = units.map(([id, shown]) => {
    const box = h("input", { type: "checkbox", id: `unit-${id}`, value: id });
    return h("li", {}, box, h("label", { for: `unit-${id}` }, shown));
  });
  const content = h(
    "details",
    {},
    h("summary", {}, "Only some of them"),
    h("ul", { class: "choices" }, boxes),
    h("p", { class: "quiet" }, "If none is chosen, it compacts everything."),
  );
  return confirmed({
    title: `Submit a compaction of ${place.topic}/${place.partition}?`,
    text: `It reads and rewrites ${counted(segmentsOf(partition).length, "segment")}, ${size(partition.bytes)}. A compactor decides when.`,
    verb: "Submit it",
    content,
    work: async () => {
      const chosen = Array.from(content.querySelectorAll("input:checked"), (box) => box.value);
      const sources = chosen.length ? chosen : "full";
      const job = await ask("submit", { ...place, sources }, { headers: { "Idempotency-Key": key } });
      ui.again();
      return `Submitted ${job.id}`;
    },
  });
}

const PINS = [
  ["Pin", ""],
  ["Made by", ""],
  ["Manifest", "number"],
  ["Created", "number"],
  ["Expires", "number"],
];

function pins(manifest) {
  const rows = (manifest.checkpoints ?? []).map((each) => ({
    key: each.id,
    cells: [
      each.name,
      each.owner ?? "user",
      count(each.manifest),
      ago(each.created_at_ms, serverNow()),
      each.expires_at_ms ? ago(each.expires_at_ms, serverNow()) : "never",
    ],
  }));
  return rows.length ? table("Pins", PINS, rows) : h("p", { class: "quiet" }, "Nothing is pinned.");
}

const SEGMENTS = [
  ["Segment", ""],
  ["In", ""],
  ["Rows", "number"],
  ["Bytes", "number"],
  ["Offsets", "number"],
  ["Keys", ""],
  ["Tombstones", "number"],
  ["Latest record", "number"],
];

function segments(partition) {
  const runs = partition.runs.flatMap((run) => run.segments.map((each) => [each, `run ${run.id}`]));
  const all = [...partition.l0.map((each) => [each, "L0"]), ...runs];
  const rows = all.slice(0, SEGMENTS_SHOWN).map(([each, place]) => ({
    key: each.id,
    mark: each.id === partition.quarantined_segment ? "bad" : null,
    cells: [
      [h("code", {}, each.id), each.id === partition.quarantined_segment ? [" ", badge("bad", "damaged")] : null],
      h("span", {}, each.store ? `${place}, in ${homeName(each.store)}` : place),
      count(each.rows),
      size(each.bytes),
      `${each.min_offset} to ${each.max_offset}`,
      keys(each),
      count(each.tombstones),
      time(each.max_timestamp_ms),
    ],
  }));
  const left = all.length - rows.length;
  return h(
    "details",
    { key: "segments" },
    h("summary", {}, counted(all.length, "segment")),
    h(
      "div",
      { class: "wide", tabindex: "0", role: "group", "aria-label": "a table that scrolls" },
      table("Live segments", SEGMENTS, rows),
    ),
    left ? h("p", { class: "quiet" }, `and ${count(left)} more`) : null,
  );
}
