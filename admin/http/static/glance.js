// The warehouse at a glance: what needs a person first, then what runs, what waits, and all topics.

import { ask, askAll, serverNow } from "./api.js";
import { badge, failures, h, partitionLink, section, table, topicLink } from "./dom.js";
import { jobRows } from "./jobs.js";
import { abandoned, isPaused, standing } from "./standing.js";
import { ago, count, isActive, placeOf, size } from "./words.js";

const AT_ONCE = 4; // requests
const PARTITIONS_A_SECOND = 20; // a look reads each partition's newest files
const SHOWN_MAX = 50;
const ASKED_MAX = 16; // running jobs whose compactor is asked for

export function glanceView() {
  return {
    title: "Warehouse",
    load,
    draw,
    wait: (data) => Math.max(2, data.places.length / PARTITIONS_A_SECOND) * 1000,
  };
}

async function load(signal) {
  const listed = await askAll("topics", {}, { signal });
  const jobs = await askAll("compactions", { status: ["submitted", "in_progress"] }, { signal });
  await markAbandoned(jobs.items, signal);
  const failed = [...listed.failed];
  const topics = [];
  const names = listed.items.map((each) => each.topic);
  const worker = async () => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      try {
        topics.push(await ask("topic", { topic: name }, { signal }));
      } catch (error) {
        if (!(error.status >= 404)) throw error;
        failed.push({ topic: name, partition: null, fault: { message: error.message } });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  topics.sort((one, other) => (one.topic < other.topic ? -1 : 1));
  for (const topic of topics) failed.push(...topic.failures.map((each) => ({ topic: topic.topic, ...each })));
  const places = topics.flatMap((topic) =>
    topic.partitions.map((partition) => ({ topic, partition, stands: standing(topic, partition, jobs.items) })),
  );
  return { topics, failed, places, jobs: jobs.items.filter(isActive) };
}

// Whether somebody works on the jobs that run is known where it is explained.
async function markAbandoned(jobs, signal) {
  const running = jobs.filter((job) => job.status === "in_progress").slice(0, ASKED_MAX);
  const look = async (job) => {
    try {
      const { topic, partition } = placeOf(job);
      job.abandoned = abandoned(await ask("explain", { topic, partition }, { signal }));
    } catch (error) {
      if (!(error.status >= 404)) throw error; // the partition is told among those that cannot be read
    }
  };
  await Promise.all(running.map(look));
}

function draw({ topics, failed, places, jobs }) {
  const worst = (one, other) => one.stands.rank - other.stands.rank;
  const attention = places.filter(({ stands }) => stands.rank <= 2).sort(worst);
  const waiting = places.filter(({ stands }) => stands.rank >= 3 && stands.who).sort(worst);
  const running = jobs.filter((job) => job.status === "in_progress");
  const worked = running.filter((job) => !job.abandoned).length;
  return [
    h("ul", { class: "figures", key: "figures" }, figures(topics, places, attention.length + failed.length, worked)),
    section(
      "Needs a person",
      failures(failed),
      attention.length
        ? table("What needs a person", STANDS, attention.slice(0, SHOWN_MAX).map(standsRow))
        : failed.length
          ? null
          : h("p", { class: "quiet" }, "Nothing."),
      more(attention.length),
    ),
    section("Under way", running.length ? jobRows(running, null) : h("p", { class: "quiet" }, "No compaction runs.")),
    section(
      "Waits",
      waiting.length
        ? table("What waits, and for whom", [...STANDS, ["Waits for", ""]], waiting.slice(0, SHOWN_MAX).map(waitsRow))
        : h("p", { class: "quiet" }, "Nothing waits."),
      more(waiting.length),
    ),
    section("Topics", topics.length ? topicsTable(topics, places) : h("p", {}, "There are no topics yet.")),
  ];
}

const STANDS = [
  ["Partition", ""],
  ["State", ""],
  ["Why", ""],
];

function standsRow({ topic, partition, stands }) {
  const place = partitionLink(topic.topic, partition.partition);
  return { key: `${topic.topic}/${partition.partition}`, cells: [place, badge(stands.kind, stands.word), stands.why] };
}

function waitsRow(place) {
  const row = standsRow(place);
  return { ...row, cells: [...row.cells, place.stands.who] };
}

const more = (length) =>
  length > SHOWN_MAX ? h("p", { class: "quiet" }, `and ${count(length - SHOWN_MAX)} more`) : null;

function figures(topics, places, attention, running) {
  const sum = (name) => places.reduce((total, { partition }) => total + partition[name], 0);
  const due = places.filter(({ partition }) => partition.due !== null).length;
  const shown = [
    [count(topics.length), topics.length === 1 ? "topic" : "topics", ""],
    [count(places.length), places.length === 1 ? "partition" : "partitions", ""],
    [count(sum("logical_rows")), "records", ""],
    [size(sum("bytes")), "in live segments", ""],
    [size(sum("dirty_bytes")), "dirty", ""],
    [count(running), running === 1 ? "compaction runs" : "compactions run", ""],
    [count(due), due === 1 ? "partition owes work" : "partitions owe work", ""],
    [count(attention), attention === 1 ? "needs a person" : "need a person", attention ? "bad" : ""],
  ];
  return shown.map(([figure, what, kind]) => h("li", { class: kind || null }, h("strong", {}, figure), ` ${what}`));
}

const TOPICS = [
  ["Topic", ""],
  ["State", ""],
  ["Partitions", "number"],
  ["Records", "number"],
  ["Size", "number"],
  ["L0", "number"],
  ["Runs", "number"],
  ["Dirty", "number"],
  ["Oldest dirty record", "number"],
];

function topicsTable(topics, places) {
  const rows = topics.map((topic) => {
    const mine = places.filter((place) => place.topic === topic);
    const sum = (of) => mine.reduce((total, { partition }) => total + of(partition), 0);
    const oldest = mine.map(({ partition }) => partition.oldest_dirty_ms).filter((ms) => ms !== null);
    return {
      key: topic.topic,
      cells: [
        topicLink(topic.topic),
        states(topic, mine),
        count(mine.length),
        count(sum((each) => each.logical_rows)),
        size(sum((each) => each.bytes)),
        count(sum((each) => each.l0.length)),
        count(sum((each) => each.runs.length)),
        size(sum((each) => each.dirty_bytes)),
        oldest.length ? ago(Math.min(...oldest), serverNow()) : "none",
      ],
    };
  });
  return table("All topics", TOPICS, rows);
}

// The worst first; how many partitions, if there are several.
function states(topic, mine) {
  const byWord = new Map();
  for (const { stands } of [...mine].sort((one, other) => one.stands.rank - other.stands.rank)) {
    byWord.set(stands.word, [stands.kind, (byWord.get(stands.word)?.[1] ?? 0) + 1]);
  }
  if (topic.failures.length) byWord.set("cannot be read", ["bad", topic.failures.length]);
  if (isPaused(topic) && !byWord.has("paused")) byWord.set("paused", ["off", mine.length]);
  return [...byWord].map(([word, [kind, number]]) => badge(kind, mine.length > 1 ? `${word}: ${number}` : word));
}
