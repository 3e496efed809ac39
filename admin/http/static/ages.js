// How old the bytes of a partition are, by the timestamps of its records; and what its compactions read and wrote.

import { columns } from "./charts.js";
import { h } from "./dom.js";
import { counted, isActive, size, span } from "./words.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const AGES = [
  [HOUR, "under 1 h"],
  [DAY, "1 h to 1 d"],
  [7 * DAY, "1 d to 7 d"],
  [30 * DAY, "7 d to 30 d"],
  [365 * DAY, "30 d to 1 year"],
  [Infinity, "over 1 year"],
];
const JOBS_DRAWN = 12;

// Within a segment, bytes are taken to be spread evenly from its oldest record to its newest.
export function bytesByAge({ l0, runs }, now) {
  const cleaned = runs.flatMap((run) => run.segments);
  const groups = AGES.map(([most, name], index) => {
    const [from, to] = [now - most, index ? now - AGES[index - 1][0] : Infinity];
    const within = (segments) => segments.reduce((total, each) => total + each.bytes * share(each, from, to), 0);
    return { name, loose: within(l0), sorted: within(cleaned) };
  });
  while (groups.length > 3 && !groups.at(-1).loose && !groups.at(-1).sorted) groups.pop();
  const [loose, sorted] = [l0, cleaned].map((all) => all.reduce((total, each) => total + each.bytes, 0));
  if (!loose && !sorted) return null;
  const oldest = Math.min(...[...l0, ...cleaned].map((each) => each.min_timestamp_ms));
  const said = `By the timestamps of the records; the oldest is ${span(Math.max(now - oldest, 0))} old.`;
  const columnsOf = groups.map((each) => ({
    name: each.name,
    title: `${each.name}: ${size(Math.round(each.loose + each.sorted))}`,
    parts: [
      { kind: "clean", amount: each.sorted },
      { kind: "young", amount: each.loose },
    ],
  }));
  const parts = [
    { kind: "young", name: "in L0", shown: size(loose) },
    { kind: "clean", name: "in sorted runs", shown: size(sorted) },
  ];
  return columns("Bytes by age.", said, columnsOf, parts, { top: size });
}

function share({ min_timestamp_ms: oldest, max_timestamp_ms: newest }, from, to) {
  const length = newest - oldest + 1;
  return Math.max(0, Math.min(newest + 1, to) - Math.max(oldest, from)) / length;
}

export function readAndWritten(jobs) {
  const ended = jobs
    .filter((job) => !isActive(job) && job.counts.bytes_read + job.counts.bytes_written > 0)
    .sort((one, other) => one.created_at - other.created_at)
    .slice(-JOBS_DRAWN);
  if (!ended.length) return null;
  const sum = (name) => ended.reduce((total, job) => total + job.counts[name], 0);
  const [read, written] = [sum("bytes_read"), sum("bytes_written")];
  const groups = ended.flatMap((job) => [
    {
      title: `${job.id} read ${size(job.counts.bytes_read)}`,
      parts: [{ kind: "read", amount: job.counts.bytes_read }],
    },
    {
      title: `${job.id} wrote ${size(job.counts.bytes_written)}`,
      parts: [{ kind: "written", amount: job.counts.bytes_written }],
    },
  ]);
  const ratio = read ? `: ${(written / read).toFixed(2)} for each byte read` : "";
  const said = `By ${ended.length === 1 ? "the last compaction that ended" : `the last ${counted(ended.length, "compaction")} that ended`}${ratio}. A clean reads what earlier ones wrote. Each key range fetches the footers of its segments, which of small segments is the whole object.`;
  const parts = [
    { kind: "read", name: "read", shown: size(read) },
    { kind: "written", name: "written", shown: size(written) },
  ];
  const ends = ended.length > 1 ? { from: "earliest", to: "latest" } : {};
  return columns("Read and written.", said, groups, parts, { top: size, ...ends });
}

export const pictures = (...figures) => h("div", { class: "pictures", key: "pictures" }, figures);
