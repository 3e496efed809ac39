// The shape of a partition, drawn three times: over its keys, over its offsets, and over its manifests.

import { legend } from "./charts.js";
import { h, svg } from "./dom.js";
import { count, counted, keyText, shortened, size } from "./words.js";

const LABEL = 92; // of a row, in pixels
const EDGE = 10;
const ROW = 18;
const THIN = 7;
const ROWS_MAX = 24;
const TICK = 110; // between the texts below an axis
const LETTER = 7;
const SLIVER = 4; // so wide that it is seen
const NAME_MIN = 6; // letters of a name that are worth showing

export function shape(partition, manifest, width) {
  return [overKeys(partition, width), overOffsets(partition, width), overManifests(partition, manifest, width)];
}

function figure(name, said, width, height, marks, kinds = []) {
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said };
  return h(
    "figure",
    { key: name },
    h("figcaption", {}, h("strong", {}, name), ` ${said}`),
    svg("svg", attributes, marks),
    kinds.length ? legend(kinds) : null,
  );
}

const label = (y, text) => svg("text", { x: LABEL - 8, y: y + 12, "text-anchor": "end" }, text);

const bar = (x, y, width, height, kind, title) =>
  svg("rect", { x, y, width: Math.max(width, SLIVER), height, rx: 1.5, class: kind }, svg("title", {}, title));

const short = (id) => `…${id.slice(-6)}`;

const kindOf = (partition, each, kind) => (each.id === partition.quarantined_segment ? "damaged" : kind);

const titleOf = (each) =>
  `${each.id}: ${counted(each.rows, "row")}, ${size(each.bytes)}, offsets ${each.min_offset} to ${each.max_offset}`;

const cross = (partition, each, x, y) =>
  each.id === partition.quarantined_segment ? svg("text", { x: x + 4, y: y + 12, class: "cross" }, "✕ damaged") : null;

function overKeys(partition, width) {
  const { l0, runs } = partition;
  const loose = l0.slice(-ROWS_MAX);
  const all = [...loose, ...runs.flatMap((run) => run.segments)].filter((each) => each.min_key !== null);
  const said = [
    `${counted(l0.length, "L0 segment")} above ${counted(runs.length, "run")}; within a run no two segments share a key. Not to scale: each segment of a run has the same width, and a gap holds no keys of that run.`,
    loose.length < l0.length ? `The latest ${loose.length} L0 segments are drawn.` : "",
  ];
  if (!all.length) return figure("By key.", "There are no segments with keys.", width, 1, []);
  const scale = keyScale(all, runs, width);
  const marks = [];
  let y = 4;
  if (loose.length) marks.push(label(y, "L0"));
  for (const each of loose) {
    const [from, to] = scale.of(each);
    const height = each.id === partition.quarantined_segment ? ROW - 3 : THIN;
    marks.push(bar(from, y + 4, to - from, height, kindOf(partition, each, "l0"), titleOf(each)));
    marks.push(cross(partition, each, from, y + 4));
    y += height + 3;
  }
  if (loose.length) y += 10;
  for (const run of runs.slice(0, ROWS_MAX)) {
    marks.push(label(y, `run ${short(run.id)}`));
    for (const each of run.segments) {
      const [from, to] = scale.of(each);
      marks.push(bar(from, y, to - from - 1, ROW - 3, kindOf(partition, each, "run"), titleOf(each)));
      marks.push(cross(partition, each, from, y));
    }
    y += ROW;
  }
  marks.push(...axis(scale.ticks, y, width));
  return figure("By key.", said.join(" "), width, y + 24, marks);
}

// Key space has no width: each stretch that a run's segment covers gets the same, other stretches less.
function keyScale(all, runs, width) {
  const from = (each) => atob(each.min_key ?? "");
  const to = (each) => (each.max_key === null ? "\uffff" : atob(each.max_key));
  const bounds = [...new Set(all.flatMap((each) => [from(each), to(each)]))].sort(inOrder);
  const place = new Map(bounds.map((bound, index) => [bound, index]));
  const weights = bounds.map(() => (runs.length ? 0.25 : 1));
  for (const each of runs.flatMap((run) => run.segments)) {
    const inside = [place.get(from(each)), place.get(to(each))];
    for (let index = inside[0]; index < inside[1]; index += 1) weights[index] = 1 / (inside[1] - inside[0]);
  }
  const xs = [0];
  for (let index = 0; index + 1 < bounds.length; index += 1) xs.push(xs[index] + weights[index]);
  const whole = xs.at(-1) || 1;
  const x = (bound) => LABEL + (xs[place.get(bound)] / whole) * (width - LABEL - EDGE);
  const starts = runs.flatMap((run) => run.segments).filter((each) => each.min_key !== null);
  const ends = (each) => [
    [x(from(each)), keyText(each.min_key ?? "")],
    [x(to(each)), each.max_key === null ? "" : keyText(each.max_key)],
  ];
  const ticks = (starts.length > 2 ? starts : all).flatMap(ends);
  return { of: (each) => [x(from(each)), x(to(each))], ticks };
}

// As bytes are ordered: these texts have one character for each byte.
const inOrder = (one, other) => (one < other ? -1 : Number(one > other));

function axis(ticks, y, width) {
  const marks = [svg("line", { x1: LABEL, x2: width - EDGE, y1: y + 2, y2: y + 2, class: "axis" })];
  let next = 0;
  for (const [x, text] of [...ticks].sort((one, other) => one[0] - other[0])) {
    if (x < next || x > width - EDGE - 40) continue;
    marks.push(svg("line", { x1: x, x2: x, y1: y + 2, y2: y + 6, class: "axis" }));
    marks.push(svg("text", { x, y: y + 18, class: "tick" }, shortened(text, 14)));
    next = x + TICK;
  }
  return marks;
}

function overOffsets(partition, width) {
  const { l0, runs, log_start_offset: start, next_offset: end, cleaned_to: cleaned } = partition;
  const all = [...l0, ...runs.flatMap((run) => run.segments)];
  const first = Math.min(start, ...all.map((each) => each.min_offset));
  const said = `The log starts at ${count(start)} and ends at ${count(end)}; below ${count(cleaned)} it is cleaned.`;
  if (end === first) return figure("By offset.", "The log is empty.", width, 1, []);
  const x = (offset) => LABEL + ((offset - first) / (end - first)) * (width - LABEL - EDGE);
  const marks = [];
  let y = 32;
  const draw = (name, segments, kind) => {
    marks.push(label(y, name));
    for (const [from, to, title, each] of segments) {
      marks.push(bar(x(from), y, x(to + 1) - x(from) - 1, ROW - 3, each ? kindOf(partition, each, kind) : kind, title));
    }
    y += ROW;
  };
  if (l0.length)
    draw(
      "L0",
      l0.map((each) => [each.min_offset, each.max_offset, titleOf(each), each]),
      "l0",
    );
  for (const run of runs.slice(0, ROWS_MAX)) draw(`run ${short(run.id)}`, stretches(run), "run");
  if (start > first)
    marks.push(svg("rect", { x: x(first), y: 32, width: x(start) - x(first), height: y - 34, class: "below" }));
  marks.push(...line(x(start), y, 12, `log start ${count(start)}`, "floor", width));
  if (cleaned > start) marks.push(...line(x(cleaned), y, 26, `cleaned to ${count(cleaned)}`, "cleaned", width));
  marks.push(...line(x(end), y, 12, `end ${count(end)}`, "end", width));
  return figure("By offset.", said, width, y + 6, marks);
}

// Segments in key order overlap in their offsets: then a run is one bar.
function stretches(run) {
  if (run.segments.every((each) => each.order === "offset")) {
    return run.segments.map((each) => [each.min_offset, each.max_offset, titleOf(each), each]);
  }
  const from = Math.min(...run.segments.map((each) => each.min_offset));
  const to = Math.max(...run.segments.map((each) => each.max_offset));
  return [[from, to, `run ${run.id}: ${counted(run.segments.length, "segment")}, offsets ${from} to ${to}`, null]];
}

function line(x, bottom, y, text, kind, width) {
  const left = x + text.length * LETTER > width - EDGE; // there is no room on the right
  const at = { x: left ? x - 3 : x + 3, y, "text-anchor": left ? "end" : "start", class: "mark" };
  return [svg("line", { x1: x, x2: x, y1: y - 8, y2: bottom, class: kind }), svg("text", at, text)];
}

function overManifests(partition, manifest, width) {
  const retired = [...(manifest.retired ?? [])].sort((one, other) => one.retired_at - other.retired_at);
  const pins = manifest.checkpoints ?? [];
  const holders = (each) =>
    pins.filter((pin) => (each.added_at ?? 0) <= pin.manifest && pin.manifest < each.retired_at);
  const held = retired.filter((each) => holders(each).length);
  const drawn = retired.slice(-ROWS_MAX);
  const bytes = retired.reduce((total, each) => total + each.bytes, 0);
  if (!retired.length && !pins.length) {
    return figure("By manifest.", "No segment is retired, and nothing is pinned.", width, 1, []);
  }
  const said = [
    `${counted(retired.length, "retired segment")}, ${size(bytes)}: ${count(held.length)} held by pins,`,
    `${count(retired.length - held.length)} waiting for the grace period and a collection.`,
    drawn.length < retired.length
      ? `The latest ${drawn.length} are drawn, and ${count(retired.length - drawn.length)} earlier ones are not.`
      : "",
  ].join(" ");
  const first = Math.min(manifest.id, ...drawn.map((each) => each.added_at ?? 0), ...pins.map((pin) => pin.manifest));
  const x = (id) => LABEL + ((id - first) / Math.max(manifest.id - first, 1)) * (width - LABEL - EDGE);
  const marks = [];
  let y = 4;
  const names = drawn.length ? y + 22 : y;
  if (pins.length) {
    marks.push(label(y, "pins"));
    y = names;
  }
  const bottom = Math.max(y + drawn.length * (THIN + 3), names) + 4;
  const byPlace = [...pins].sort((one, other) => one.manifest - other.manifest);
  let free = LABEL; // no name stands from here on
  for (const [index, pin] of byPlace.entries()) {
    const at = x(pin.manifest);
    const next = index + 1 < byPlace.length ? x(byPlace[index + 1].manifest) : width - EDGE;
    const title = svg("title", {}, `${pin.name} pins manifest ${pin.manifest}`);
    marks.push(svg("line", { x1: at, x2: at, y1: 4, y2: Math.max(bottom, 22), class: "pin" }, title));
    // On the side that has more room, as much of the name as stands between two pins.
    const left = at - free > next - at;
    const letters = Math.floor(((left ? at - free : next - at) - 6) / LETTER);
    if (letters < Math.min(pin.name.length, NAME_MIN)) continue;
    const name = shortened(pin.name, Math.min(letters, 16));
    free = left ? at : at + name.length * LETTER + 6;
    const place = { x: left ? at - 3 : at + 3, y: 16, "text-anchor": left ? "end" : "start", class: "mark" };
    marks.push(svg("text", place, name));
  }
  if (drawn.length) marks.push(label(y - 4, "retired"));
  for (const each of drawn) {
    const by = holders(each).map((pin) => pin.name);
    const why = by.length ? `held by ${by.join(", ")}` : "waits for the grace period and a collection";
    const title = `${each.id}: ${size(each.bytes)}, live from manifest ${each.added_at ?? 0} to ${each.retired_at}; ${why}`;
    const from = x(each.added_at ?? 0);
    marks.push(bar(from, y, x(each.retired_at) - from, THIN, by.length ? "held" : "retired", title));
    y += THIN + 3;
  }
  const from = svg("text", { x: LABEL, y: bottom + 16, class: "tick" }, `manifest ${count(first)}`);
  const to = { x: width - EDGE, y: bottom + 16, "text-anchor": "end", class: "tick" };
  marks.push(from, svg("text", to, `manifest ${count(manifest.id)}, now`));
  const kinds = [
    { kind: "held", name: "held by a pin" },
    { kind: "retired", name: "waits for the grace period and a collection" },
  ].filter(({ kind }) => drawn.some((each) => (holders(each).length > 0) === (kind === "held")));
  return figure("By manifest.", said, width, bottom + 22, marks, kinds);
}
