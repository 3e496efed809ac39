// Which compactor worked on a partition when, and who fenced whom.

import { h, svg } from "./dom.js";
import { count, counted, shortened, span, time } from "./words.js";

const LABEL = 92; // of a lane, in pixels
const EDGE = 10;
const LANE = 24;
const LANES_MAX = 8;

// `claims`: events `claimed`, if they are known. Without them, a claim is where an attempt of a later epoch begins.
export function timeline(jobs, claims, width, now) {
  const attempts = jobs
    .flatMap((job) => job.attempts.map((each) => ({ ...each, job: job.id })))
    .sort((one, other) => one.started_at_ms - other.started_at_ms);
  const fences = claims.length ? claims : handovers(attempts);
  const workers = [...fences.map(({ owner }) => owner), ...attempts.map(({ worker }) => worker)];
  const lanes = [...new Set(workers.reverse())].slice(0, LANES_MAX).reverse();
  if (!lanes.length) return h("p", { class: "quiet", key: "timeline" }, "No compactor is known to have worked here.");
  const took = fences.filter(({ former, owner }) => former && former !== owner);
  const last = took.at(-1);
  const said = [
    `${counted(lanes.length, "compactor")}, ${counted(attempts.length, "attempt")}.`,
    last
      ? `Epoch ${count(last.epoch)}: ${last.owner} fenced ${last.former} at ${time(last.at_ms)}.`
      : "Nobody was fenced by another.",
  ].join(" ");
  const first = Math.min(...attempts.map((each) => each.started_at_ms), ...fences.map(({ at_ms: at }) => at));
  const x = (ms) => LABEL + ((Math.min(ms, now) - first) / Math.max(now - first, 1)) * (width - LABEL - EDGE);
  const y = (name) => 20 + lanes.indexOf(name) * LANE;
  const bottom = 20 + lanes.length * LANE;
  const marks = lanes.map((name) => [
    svg("line", { x1: LABEL, x2: width - EDGE, y1: y(name) + LANE / 2, y2: y(name) + LANE / 2, class: "lane" }),
    svg("text", { x: LABEL - 8, y: y(name) + 16, "text-anchor": "end" }, svg("title", {}, name), worker(name)),
  ]);
  marks.push(...attempts.filter(({ worker: name }) => lanes.includes(name)).map((each) => attempt(each, x, y, now)));
  marks.push(fenced(fences, lanes, x, y, width));
  marks.push(svg("text", { x: LABEL, y: bottom + 14, class: "tick" }, time(first)));
  marks.push(svg("text", { x: width - EDGE, y: bottom + 14, "text-anchor": "end", class: "tick" }, "now"));
  const height = bottom + 20;
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said };
  return h(
    "figure",
    { key: "timeline" },
    h("figcaption", {}, h("strong", {}, "Who worked, and who fenced whom."), ` ${said}`),
    svg("svg", attributes, marks),
  );
}

function handovers(attempts) {
  const found = [];
  let held = null;
  for (const each of attempts) {
    if (held === null || each.epoch > held.epoch) {
      found.push({ epoch: each.epoch, owner: each.worker, former: held?.worker ?? "", at_ms: each.started_at_ms });
      held = each;
    }
  }
  return found;
}

// host:pid, of which the end tells most.
const worker = (name) => (name.length > 12 ? `…${name.slice(-11)}` : name);

function attempt(each, x, y, now) {
  const [from, to] = [x(each.started_at_ms), x(each.ended_at_ms ?? now)];
  const kind = each.error ? "damaged" : each.ended_at_ms === null ? "l0" : "run";
  const how = each.error
    ? `${each.error.category}: ${each.error.reason}`
    : each.ended_at_ms === null
      ? "has no end yet"
      : `took ${span(each.ended_at_ms - each.started_at_ms)}`;
  const title = svg("title", {}, `${each.job}, attempt ${each.number}, epoch ${each.epoch}: ${how}`);
  return svg(
    "rect",
    { x: from, y: y(each.worker) + 5, width: Math.max(to - from, 3), height: 14, rx: 2, class: kind },
    title,
  );
}

// A line where a claim took the partition, from the lane of the one that was fenced; a number for each epoch, if there
// is room.
function fenced(fences, lanes, x, y, width) {
  let free = Infinity; // the numbers of later epochs stand from here on
  return [...fences].reverse().map(({ epoch, owner, former, at_ms: at }) => {
    const place = x(at);
    const [top, bottom] = [former, owner]
      .map((name) => (lanes.includes(name) ? y(name) + LANE / 2 : 14))
      .sort((a, b) => a - b);
    const said = former ? `epoch ${epoch}: ${owner} fenced ${former}` : `epoch ${epoch}: ${owner}`;
    const title = svg("title", {}, `${said}, ${time(at)}`);
    const text = shortened(`epoch ${epoch}`, 12);
    const right = place > width - 70;
    const room = right ? place - 56 : place;
    const shown = room + 62 <= free || free === Infinity;
    if (shown) free = room;
    return [
      former && former !== owner
        ? svg("line", { x1: place, x2: place, y1: top, y2: bottom, class: "fence" }, title)
        : null,
      shown ? svg("text", { x: place, y: 12, "text-anchor": right ? "end" : "start", class: "mark" }, text) : null,
    ];
  });
}
