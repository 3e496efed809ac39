// Where the segments are: in the warehouse, and in the other homes that topics have.

import { badge, h, table } from "./dom.js";
import { count, counted, size } from "./words.js";

export const homeName = (home) => home || "the warehouse";

// Of all partitions, the warehouse first; nothing if there is no other home.
export function homesOf({ partitions, homes }) {
  if (!homes.length) return null;
  const sums = new Map([["", NONE], ...homes.map(({ home }) => [home, NONE])]);
  for (const each of partitions.flatMap((partition) => partition.homes)) {
    const { segments, bytes, retired } = sums.get(each.home) ?? NONE;
    sums.set(each.home, {
      segments: segments + each.segments,
      bytes: bytes + each.bytes,
      retired: retired + each.retired_bytes,
    });
  }
  const away = new Map(homes.map((each) => [each.home, each.away]));
  const rows = [...sums].map(([home, sum]) => ({
    key: home || "here",
    cells: [
      homeName(home),
      away.get(home) ? badge("bad", "away") : badge("ok", "answers"),
      count(sum.segments),
      size(sum.bytes),
      size(sum.retired),
    ],
  }));
  return table("Where the segments are", HOMES, rows);
}

const NONE = { segments: 0, bytes: 0, retired: 0 };
const HOMES = [
  ["Home", ""],
  ["State", ""],
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
