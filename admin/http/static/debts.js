// What the bytes of all partitions are, and how their debt has moved since this page was opened.

import { lines, partsBar } from "./charts.js";
import { h } from "./dom.js";
import { mayBeDone } from "./standing.js";
import { counted, size, span, time } from "./words.js";

const SAMPLES_MAX = 720; // half a day of surveys of a minute

const samples = []; // { at, dirty, due, held }, kept from view to view

const total = (partitions, of) => partitions.reduce((sum, each) => sum + of(each), 0);

// What a compactor may work on now, and what a pause or a quarantine holds. Debts of one partition may be of the same
// segments, so the largest counts.
export function owedBy(partition) {
  const largest = (debts) => Math.max(0, ...debts.map(({ bytes }) => bytes));
  const [now, held] = [true, false].map((wanted) =>
    partition.debts.filter((debt) => mayBeDone(partition, debt) === wanted),
  );
  return { due: largest(now), held: largest(held) };
}

export function remember({ at_ms: at, partitions }) {
  if (samples.length && samples.at(-1).at >= at) return;
  const [due, held] = ["due", "held"].map((name) => total(partitions, (each) => owedBy(each)[name]));
  samples.push({ at, dirty: total(partitions, (each) => each.dirty_bytes), due, held });
  if (samples.length > SAMPLES_MAX) samples.shift();
}

export function bytesNow(partitions) {
  const sum = (name) => total(partitions, (each) => each[name]);
  const [bytes, clean, dirty, young] = ["bytes", "clean_bytes", "dirty_bytes", "young_bytes"].map(sum);
  const garbage = total(partitions, (each) => each.waiting.bytes);
  const rest = Math.max(0, bytes - clean - dirty - young);
  const said = `${size(bytes)} in live segments, and ${size(garbage)} replaced and not yet collected.`;
  return partsBar("Bytes.", said, [
    { kind: "clean", name: "clean", amount: clean, shown: size(clean) },
    { kind: "dirty", name: "dirty", amount: dirty, shown: size(dirty) },
    { kind: "young", name: "too young to clean", amount: young, shown: size(young) },
    { kind: "rest", name: "of topics that are not cleaned", amount: rest, shown: size(rest) },
    { kind: "garbage", name: "garbage that waits", amount: garbage, shown: size(garbage) },
  ]);
}

export function debtOverTime() {
  const last = samples.at(-1);
  if (samples.length < 2) {
    const said = "Drawn from the second survey on that this page sees.";
    return h("figure", { key: "Debt." }, h("figcaption", {}, h("strong", {}, "Debt."), ` ${said}`));
  }
  const past = span(last.at - samples[0].at);
  const moved = last.due - samples[0].due;
  const how = moved === 0 ? "as much as" : `${size(Math.abs(moved))} ${moved > 0 ? "more" : "less"} than`;
  const held = last.held ? ` A pause or a quarantine holds work on ${size(last.held)} more.` : "";
  const said = `Compactors have ${size(last.due)} to work on, ${how} ${past} ago (${counted(samples.length, "survey")}, since this page was opened).${held}`;
  const series = [
    { kind: "line-dirty", name: "dirty", shown: size(last.dirty), points: samples.map(({ at, dirty }) => [at, dirty]) },
    { kind: "line-due", name: "due now", shown: size(last.due), points: samples.map(({ at, due }) => [at, due]) },
    { kind: "line-held", name: "held", shown: size(last.held), points: samples.map(({ at, held: of }) => [at, of]) },
  ].filter(({ kind }) => kind !== "line-held" || samples.some(({ held: of }) => of > 0));
  return lines("Debt.", said, series, { top: size, from: time(samples[0].at), to: time(last.at) });
}
