// Where the segments are: in the warehouse, and in the other homes that topics have.

import { badge, h, table, topicLink } from "./dom.js";
import { count, counted, size } from "./words.js";

const TOPICS_SHOWN = 8;

export const homeName = (home) => home || "the warehouse";

// Of all partitions, the warehouse first; nothing if there is no other home.
export function homesOf({ partitions, homes }) {
  if (!homes.length) return null;
  const sums = new Map(["", ...homes.map(({ home }) => home)].map((home) => [home, none()]));
  for (const { topic, homes: used } of partitions) {
    for (const each of used) {
      if (!sums.has(each.home)) sums.set(each.home, none());
      const sum = sums.get(each.home);
      sum.segments += each.segments;
      sum.bytes += each.bytes;
      sum.retired += each.retired_bytes;
      if (each.segments || each.retired_segments) sum.topics.add(topic);
    }
  }
  const away = new Map(homes.map((each) => [each.home, each.away]));
  const rows = [...sums].map(([home, sum]) => ({
    key: home || "here",
    cells: [
      homeName(home),
      away.get(home) ? badge("bad", "away") : badge("ok", "answers"),
      whose([...sum.topics].sort()),
      count(sum.segments),
      size(sum.bytes),
      size(sum.retired),
    ],
  }));
  return table("Where the segments are", HOMES, rows);
}

const none = () => ({ segments: 0, bytes: 0, retired: 0, topics: new Set() });

function whose(topics) {
  const shown = topics.slice(0, TOPICS_SHOWN).flatMap((topic) => [", ", topicLink(topic)]);
  const left = topics.length - TOPICS_SHOWN;
  return h("span", {}, shown.slice(1), left > 0 ? ` and ${count(left)} more` : null);
}

// The other homes in which partitions of a topic have something.
export function othersOf(partitions) {
  const found = new Set(partitions.flatMap(({ homes }) => homes.map(({ home }) => home)).filter(Boolean));
  return found.size ? h("span", { class: "quiet beside" }, ` also in ${[...found].sort().join(", ")}`) : null;
}

const HOMES = [
  ["Home", ""],
  ["State", ""],
  ["Topics", ""],
  ["Segments", "number"],
  ["Size", "number"],
  ["Replaced, not yet deleted", "number"],
];

export const awayOf = ({ homes }) => homes.filter(({ away }) => away);

export function awayTold(homes) {
  if (!homes.length) return null;
  return homes.map(({ home, away }) =>
    h("p", { key: home }, badge("bad", "away"), ` ${home}: ${away}. What needs its segments waits.`),
  );
}

// Of one partition: nothing if all is in the warehouse.
export function spread(partition) {
  const sums = new Map();
  for (const each of [...partition.l0, ...partition.runs.flatMap((run) => run.segments)]) {
    const sum = sums.get(each.store) ?? { segments: 0, bytes: 0 };
    sums.set(each.store, { segments: sum.segments + 1, bytes: sum.bytes + each.bytes });
  }
  if ([...sums.keys()].every((home) => !home)) return "";
  const said = ([home, { segments, bytes }]) => `${counted(segments, "segment")} (${size(bytes)}) in ${homeName(home)}`;
  return [...sums].sort(([one], [other]) => (one < other ? -1 : 1)).map(said).join(", ");
}
