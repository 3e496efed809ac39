// What the bytes of all partitions are, and how their debt has moved since this page was opened.

import { lines, partsBar } from "./charts.js";
import { h } from "./dom.js";
import { counted, size, span, time } from "./words.js";

const SAMPLES_MAX = 720; // half a day of surveys of a minute

const samples = []; // { at, dirty, owed }, kept from view to view

const total = (partitions, of) => partitions.reduce((sum, each) => sum + of(each), 0);

// Debts of one partition may be of the same segments, so the largest counts.
const owedBy = (each) => Math.max(0, ...each.debts.map(({ bytes }) => bytes));

export function remember({ at_ms: at, partitions }) {
  if (samples.length && samples.at(-1).at >= at) return;
  samples.push({ at, dirty: total(partitions, (each) => each.dirty_bytes), owed: total(partitions, owedBy) });
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
  const moved = last.owed - samples[0].owed;
  const how = moved === 0 ? "as much as" : `${size(Math.abs(moved))} ${moved > 0 ? "more" : "less"} than`;
  const said = `${size(last.owed)} are due, ${how} ${past} ago (${counted(samples.length, "survey")}, since this page was opened).`;
  const series = [
    { kind: "line-dirty", name: "dirty", shown: size(last.dirty), points: samples.map(({ at, dirty }) => [at, dirty]) },
    { kind: "line-owed", name: "due now", shown: size(last.owed), points: samples.map(({ at, owed }) => [at, owed]) },
  ];
  return lines("Debt.", said, series, { top: size, from: time(samples[0].at), to: time(last.at) });
}
