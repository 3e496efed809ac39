// What a compactor would do next in a partition, and why not more, as a person reads it.

import { badge, facts, h, table } from "./dom.js";
import { ACTIONS, DEBTS, ago, count, counted, keyText, priceText, shortened, size, span, time } from "./words.js";

const PASSED_SHOWN = 8;
const KINDS = { wait: "ok", propose: "due", drop: "due", admit: "due", resume: "run", settle: "due" };
const LEASE_MS = 30_000; // as the compactor's
const GONE_MS = 3_600_000; // work that waits so long is overdue

// The page says above what is damaged, and how a quarantine is lifted.
const short = (text) => text.replace(/(quarantined because of a damaged segment): .*/s, "$1");

export function explained(found) {
  const shorter = (one) => ({ ...one, reason: short(one.reason) });
  const each = { ...shorter(found), passed: found.passed.map(shorter) };
  const { estimate, owed } = each;
  const what = each.debt ? `${DEBTS[each.debt] ?? each.debt}: ` : "";
  const later = each.passed.slice(PASSED_SHOWN);
  return [
    h(
      "p",
      { class: "answer", key: "answer" },
      badge(kindOf(each), ACTIONS[each.action] ?? each.action),
      ` ${what}${each.reason}`,
    ),
    each.beside
      ? h(
          "p",
          { key: "beside" },
          `Beside it: ${(ACTIONS[each.beside.action] ?? each.beside.action).toLowerCase()}, ${each.beside.reason}`,
        )
      : null,
    facts([
      [
        "reads",
        estimate
          ? `${counted(estimate.input_segments, "segment")}, ${size(estimate.input_bytes)}, ${counted(estimate.input_rows, "row")}, in ${counted(estimate.ranges, "key range")}`
          : "",
      ],
      [
        "expects",
        estimate ? `${size(estimate.output_bytes)} and ${counted(estimate.output_rows, "row")}, ${estimate.basis}` : "",
      ],
      [
        "costs",
        estimate
          ? `about ${count(estimate.gets + estimate.own_gets)} GET or HEAD and ${count(estimate.puts + estimate.own_puts)} PUT or POST; ${size(estimate.peak_memory_bytes)} of memory in a worker`
          : "",
      ],
      ["price", each.price ? priceText(each.price) : ""],
      ["clean", size(owed.clean_bytes)],
      ["dirty", `${size(owed.dirty_bytes)} (ratio ${owed.dirty_ratio.toFixed(2)})`],
      ["too young", size(owed.young_bytes)],
      [
        "oldest dirty record",
        owed.oldest_dirty_ms === null ? "" : `${time(owed.oldest_dirty_ms)} (${ago(owed.oldest_dirty_ms, each.at_ms)})`,
      ],
      ["below the log start", `${counted(owed.droppable_segments, "segment")} (${size(owed.droppable_bytes)})`],
      ["compactor", owner(each)],
    ]),
    each.inputs.length
      ? h(
          "div",
          { class: "wide", tabindex: "0", role: "group", "aria-label": "a table that scrolls", key: "inputs" },
          table("What it would read", INPUTS, each.inputs.map(input), { shown: true }),
        )
      : null,
    each.passed.length
      ? table("Not chosen, and why", PASSED, each.passed.slice(0, PASSED_SHOWN).map(passed), { shown: true })
      : null,
    later.length
      ? h(
          "details",
          { key: "later" },
          h("summary", {}, `${count(later.length)} more that are not chosen`),
          table("More that are not chosen", PASSED, later.map(passed)),
        )
      : null,
  ];
}

// One that waits although something is due is not well.
const kindOf = ({ action, reason }) =>
  action === "wait" && reason !== "nothing is due" ? "off" : (KINDS[action] ?? "due");

// It may be at work elsewhere: one that has nothing to do here leaves no mark.
export function owner({ action, compactor, at_ms: now }) {
  if (compactor === null) return "none yet";
  if (compactor.at_work) return `${compactor.name}, at work`;
  const past = compactor.seen_ms === null ? null : Math.max(now - compactor.seen_ms, 0);
  const seen = past === null ? "" : `; last seen here ${span(past)} ago`;
  if (compactor.left) return `none now; ${compactor.name} left${seen}`;
  if (action === "wait") return `${compactor.name}: nothing to do here${seen}`;
  const how = past !== null && past > GONE_MS ? "gone, or busy elsewhere" : "not at work here";
  return `${compactor.name}: ${how}${seen}; a standby takes over work that it leaves undone for ${span(LEASE_MS)}`;
}

const PASSED = [
  ["Not chosen", ""],
  ["Why", ""],
];

const passed = (each) => ({ key: `${each.what}: ${each.reason}`, cells: [each.what, each.reason] });

const INPUTS = [
  ["Input", ""],
  ["Kind", ""],
  ["Segments", "number"],
  ["Rows", "number"],
  ["Bytes", "number"],
  ["Offsets", "number"],
  ["Keys", ""],
];

const input = (each) => ({
  key: each.id,
  cells: [
    h("code", {}, each.id),
    each.kind,
    count(each.segments),
    count(each.rows),
    size(each.bytes),
    `${each.min_offset} to ${each.max_offset}`,
    keys(each),
  ],
});

export function keys({ min_key: low, max_key: high }) {
  if (low === null && high === null) return "";
  const shown = (key, none) => (key === null ? none : shortened(keyText(key), 24));
  return `${shown(low, "…")} to ${shown(high, "…")}`;
}
