// The warehouse at a glance, from its survey: what needs a person first, then what runs, what waits, and all topics.

import { ask, serverNow } from "./api.js";
import { bytesNow, debtOverTime, owedBy, remember } from "./debts.js";
import { badge, failures, h, partitionLink, section, topicLink } from "./dom.js";
import { awayOf, awayTold, homesOf, othersOf } from "./homes.js";
import { jobRows } from "./jobs.js";
import { Listing } from "./lists.js";
import { NEEDS_A_PERSON, abandoned, surveyStanding } from "./standing.js";
import { ago, count, counted, placeOf, size, time } from "./words.js";

const PARTITIONS_A_SECOND = 100; // of which an answer tells; the server reads them at most once in a survey
const JOBS_A_SECOND = 4;
const WAIT_MS = 1_000; // for a new survey; meanwhile the last one is shown, or what the first has read so far
const ASKED_MAX = 16; // running jobs of which the newest progress is asked for

export function glanceView() {
  const lists = {
    attention: new Listing("attention"),
    waiting: new Listing("waiting"),
    topics: new Listing("topics", TOPIC_ORDERS),
  };
  return {
    title: "Warehouse",
    asking: "Asking for the survey of all partitions. The first one of a server reads each of them…",
    load,
    draw: (data, ui) => draw(data, lists, ui),
    wait: ({ survey, places, jobs }) =>
      survey.whole ? 1000 * Math.max(2, places.length / PARTITIONS_A_SECOND, jobs.length / JOBS_A_SECOND) : WAIT_MS,
  };
}

async function load(signal) {
  const survey = await ask("overview", { wait_ms: WAIT_MS }, { signal });
  if (survey.whole) remember(survey);
  const places = survey.partitions.map((each) => ({ ...each, stands: surveyStanding(each) }));
  const running = places.flatMap((place) =>
    place.jobs.filter((job) => job.status === "in_progress").map((job) => ({ place, job })),
  );
  const jobs = await Promise.all(running.slice(0, ASKED_MAX).map((each) => newest(each, signal)));
  return { survey, places, topics: byTopic(places, survey.failed), running, jobs: jobs.filter(Boolean) };
}

// A survey may be a minute old; a job that runs is asked for itself.
async function newest({ place, job: { id } }, signal) {
  try {
    const job = await ask("compaction", placeOf({ id }), { signal });
    const lost = job.status === "in_progress" && !place.at_work;
    if (lost) job.abandoned = abandoned(await ask("explain", placeOf({ id }), { signal }));
    return job;
  } catch (error) {
    if (!(error.status >= 404)) throw error; // it has gone since the survey, or its partition cannot be read
    return null;
  }
}

function byTopic(places, failed) {
  const topics = new Map();
  const of = (name) => {
    if (!topics.has(name)) topics.set(name, { topic: name, places: [], failed: 0 });
    return topics.get(name);
  };
  for (const place of places) of(place.topic).places.push(place);
  for (const each of failed) of(each.topic).failed += 1;
  return [...topics.values()].map(summed);
}

function summed(topic) {
  const sum = (name) => topic.places.reduce((total, place) => total + place[name], 0);
  const oldest = topic.places.map((place) => place.oldest_dirty_ms).filter((ms) => ms !== null);
  return {
    ...topic,
    worst: Math.min(...topic.places.map(({ stands }) => stands.rank), topic.failed ? 0 : Infinity),
    rows: sum("logical_rows"),
    bytes: sum("bytes"),
    l0: sum("l0_segments"),
    runs: sum("runs"),
    dirty: sum("dirty_bytes"),
    oldest: oldest.length ? Math.min(...oldest) : null,
  };
}

const named = (one, other) => (one.topic < other.topic ? -1 : Number(one.topic > other.topic));

const TOPIC_ORDERS = [
  ["by name", named],
  ["worst first", (one, other) => one.worst - other.worst || other.dirty - one.dirty || named(one, other)],
  ["most dirty first", (one, other) => other.dirty - one.dirty || named(one, other)],
  ["largest first", (one, other) => other.bytes - one.bytes || named(one, other)],
];

function draw({ survey, topics, places, running, jobs }, lists, ui) {
  const worst = (one, other) => one.stands.rank - other.stands.rank || other.dirty_bytes - one.dirty_bytes;
  const attention = places.filter(({ stands }) => stands.rank <= NEEDS_A_PERSON).sort(worst);
  const waiting = places.filter(({ stands }) => stands.rank > NEEDS_A_PERSON && stands.who).sort(worst);
  const textOf = ({ topic, partition, stands }) => `${topic}/${partition} ${stands.word} ${stands.why}`;
  const table = (list, caption, columns, items, row) => list.draw(caption, columns, items, { row, textOf, ui });
  const { failed } = survey;
  const away = awayOf(survey);
  const need = attention.length + failed.length + away.length;
  const homes = homesOf(survey);
  const unseen = running.length - jobs.length;
  return [
    h("ul", { class: "figures", key: "figures" }, figures(topics, places, need, running)),
    survey.whole ? h("p", { class: "quiet", key: "survey" }, surveyed(survey)) : soFar(survey),
    section(
      "Needs a person",
      failures(failed),
      awayTold(away),
      attention.length
        ? table(lists.attention, "What needs a person", STANDS, attention, standsRow)
        : need
          ? null
          : h("p", { class: "quiet" }, survey.whole ? "Nothing." : "Nothing so far."),
    ),
    section(
      "Under way",
      jobs.length ? jobRows(jobs, null) : h("p", { class: "quiet" }, "No compaction runs."),
      unseen > 0 ? h("p", { class: "quiet" }, `and ${counted(unseen, "compaction")} more`) : null,
    ),
    homes ? section("Homes", homes) : null,
    section("Bytes and debt", h("div", { class: "pictures", key: "pictures" }, bytesNow(places), debtOverTime())),
    section(
      "Waits",
      waiting.length
        ? table(lists.waiting, "What waits, and for whom", [...STANDS, ["Waits for", ""]], waiting, waitsRow)
        : h("p", { class: "quiet" }, survey.whole ? "Nothing waits." : "Nothing so far."),
    ),
    section(
      "Topics",
      topics.length
        ? lists.topics.draw("All topics", TOPICS, topics, { row: topicRow, textOf: ({ topic }) => topic, ui })
        : h("p", {}, survey.whole ? "There are no topics yet." : "None has been read yet."),
    ),
  ];
}

// The server makes one survey for everybody who asks, and not more often than it is told to.
const surveyed = ({ at_ms: at, age_ms: age }) =>
  `Survey of ${time(at)}, ${ago(at, at + age)}; compactions under way are as of now.`;

function soFar({ partitions, failed }) {
  const read = counted(partitions.length + failed.length, "partition");
  const said = ` The server reads all partitions for the first time, and has read ${read} so far.`;
  return h("p", { key: "survey", role: "status" }, badge("warn", "not all yet"), said);
}

const STANDS = [
  ["Partition", ""],
  ["State", ""],
  ["Why", ""],
];

const standsRow = ({ topic, partition, stands }) => ({
  key: `${topic}/${partition}`,
  cells: [partitionLink(topic, partition), badge(stands.kind, stands.word), stands.why],
});

function waitsRow(place) {
  const row = standsRow(place);
  return { ...row, cells: [...row.cells, place.stands.who] };
}

function figures(topics, places, attention, running) {
  const sum = (of) => places.reduce((total, place) => total + of(place), 0);
  const worked = running.filter(({ place }) => place.at_work).length;
  const owing = places.filter(({ debts }) => debts.length);
  const due = owing.filter((each) => owedBy(each).due > 0).length;
  const held = owing.length - due;
  const shown = [
    [count(attention), attention === 1 ? "needs a person" : "need a person", attention ? "bad" : ""],
    [count(worked), worked === 1 ? "compaction runs" : "compactions run", ""],
    [count(due), due === 1 ? "partition has work due" : "partitions have work due", ""],
    ...(held ? [[count(held), "held by a pause or a quarantine", ""]] : []),
    [size(sum((each) => each.dirty_bytes)), "dirty", ""],
    [size(sum((each) => each.bytes)), "in live segments", ""],
    [count(sum((each) => each.logical_rows)), "records", ""],
    [count(topics.length), topics.length === 1 ? "topic" : "topics", ""],
    [count(places.length), places.length === 1 ? "partition" : "partitions", ""],
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

const topicRow = (topic) => ({
  key: topic.topic,
  cells: [
    [topicLink(topic.topic), othersOf(topic.places)],
    states(topic),
    count(topic.places.length),
    count(topic.rows),
    size(topic.bytes),
    count(topic.l0),
    count(topic.runs),
    size(topic.dirty),
    topic.oldest === null ? "none" : ago(topic.oldest, serverNow()),
  ],
});

// The worst first; how many partitions, if there are several.
function states({ places, failed }) {
  const byWord = new Map();
  for (const { stands } of [...places].sort((one, other) => one.stands.rank - other.stands.rank)) {
    byWord.set(stands.word, [stands.kind, (byWord.get(stands.word)?.[1] ?? 0) + 1]);
  }
  if (failed) byWord.set("cannot be read", ["bad", failed]);
  return [...byWord].map(([word, [kind, number]]) => badge(kind, places.length > 1 ? `${word}: ${number}` : word));
}
