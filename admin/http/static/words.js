// Numbers, times and states in the words of the command line. Pure.

export const DEBTS = {
  floor: "drop segments",
  overdue: "clean overdue records",
  "runs-pressure": "merge runs, to relieve reads",
  "l0-pressure": "merge L0 segments, to relieve appends",
  dirty: "clean dirty records",
  tombstones: "clean expired tombstones",
  l0: "merge L0 segments",
  runs: "merge runs",
  cold: "move old segments",
  "fan-in": "merge some inputs first",
};

export const debtText = (debt) => DEBTS[debt] ?? debt;

export const ACTIONS = {
  settle: "Write down how a job ended",
  drop: "Drop segments below the log start",
  resume: "Continue the job that runs",
  admit: "Decide on a request",
  propose: "Start a compaction",
  wait: "Nothing now",
};

const STEPS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

// 1.5 MiB
export function size(bytes) {
  let amount = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (amount < 1024 || unit === "TiB") return unit === "B" ? `${bytes} B` : `${amount.toFixed(1)} ${unit}`;
    amount /= 1024;
  }
  return "";
}

export const count = (number) => number.toLocaleString("en-US");

// 1 segment, 1,234 segments
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

// 3.5 h, 3 min
export function span(ms) {
  for (const [step, unit] of STEPS) {
    if (Math.abs(ms) >= step) return `${(ms / step).toFixed(1).replace(/\.0$/, "")} ${unit}`;
  }
  return `${Math.round(ms)} ms`;
}

// 2026-11-23 16:00:00Z
export function time(ms) {
  if (ms === null || ms === undefined) return "";
  if (!(ms >= 0 && ms < 253_402_300_800_000)) return `${ms} ms`; // a record may have any timestamp
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

export function ago(ms, now) {
  if (ms === null || ms === undefined) return "never";
  const past = now - ms;
  if (past < 0) return `in ${span(-past)}`;
  return past < 1000 ? "just now" : `${span(past)} ago`;
}

// Of a move between homes, without the parts that are too small to be shown.
export function priceText({ requests_usd: requests, retrieval_usd: retrieval, early_usd: early }) {
  const parts = [
    [requests, "requests"],
    [retrieval, "retrieval"],
    [early, "for the minimum storage duration"],
  ];
  const sum = requests + retrieval + early;
  if (sum < USD_SHOWN) return "less than 0.000001 USD at S3's list prices";
  const shown = parts.filter(([amount]) => amount >= USD_SHOWN).map(([amount, what]) => `${usd(amount)} ${what}`);
  return `${usd(sum)} USD at S3's list prices (${shown.join(", ")})`;
}

const USD_SHOWN = 0.0000005;
const usd = (amount) => amount.toFixed(6);

export const share = (number) => `${Number(number.toFixed(1))} %`;

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export function base64Of(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

// Bytes as text if they are printable UTF-8, else in hexadecimal digits.
export const readable = (base64) => textOf(bytesOf(base64)) ?? `0x${hexOf(bytesOf(base64))}`;

// null: they are not printable UTF-8.
export function textOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(text)) {
      return text;
    }
  } catch {
    // not UTF-8
  }
  return null;
}

export const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// ASCII as it is, and a dot for any other byte.
export const asciiOf = (bytes) =>
  Array.from(bytes, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");

// Key bounds are padded with zeros at their end.
export const keyText = (base64) => readable(base64Of(trimmed(bytesOf(base64))));

function trimmed(bytes) {
  let end = bytes.length;
  while (end && bytes[end - 1] === 0) end -= 1;
  return bytes.length >= 32 ? bytes.subarray(0, end) : bytes;
}

export const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const STATUSES = { in_progress: "running", submitted: "requested" };

export const statusText = (status) => STATUSES[status] ?? status;

export const isActive = (job) => job.status === "submitted" || job.status === "in_progress";

// The parts of a compaction's id.
export function placeOf(job) {
  const [topic, partition, id] = job.id.split("/");
  return { topic, partition, job: id };
}
