// How a partition stands: what it owes, and whom it waits for. Pure.

import { counted, debtText, isActive, share, size, span } from "./words.js";

const SOMEBODY = { person: "a person", compactor: "a compactor", resume: "the topic to be resumed" };

// Whether a compactor may do such work now: retention goes on where compaction is stopped.
export const mayBeDone = ({ quarantine, paused }, { work }) => work === "drop" || (quarantine === null && !paused);

export const isPaused = (topic) => topic.config["compaction.paused"] === "true";

// A job that is running by its status, although nobody works on it: says since when. "": somebody does.
export function abandoned({ compactor, at_ms: now }) {
  if (compactor === null) return "no compactor has worked on it yet";
  if (compactor.at_work) return "";
  const seen = compactor.seen_ms === null ? "" : ` for ${span(Math.max(now - compactor.seen_ms, 0))}`;
  return `${compactor.name} gave no sign of life${seen}`;
}

const stands = (rank, kind, word, why, who = "") => ({ rank, kind, word, why, who });

const idle = (paused) =>
  paused ? stands(9, "off", "paused", "nothing is due") : stands(10, "ok", "nothing is due", "");

// { rank, kind, word, why, who }: the lowest rank first, up to NEEDS_A_PERSON those that do; `kind` is that of a badge.
export const NEEDS_A_PERSON = 4;

export function standing(topic, partition, jobs) {
  const mine = jobs.filter((job) => job.id.startsWith(`${topic.topic}/${partition.partition}/`) && isActive(job));
  const running = mine.find((job) => job.status === "in_progress");
  const alarm = partition.consumers.find((consumer) => consumer.alarm !== null);
  const paused = isPaused(topic);
  if (partition.quarantine !== null) {
    const segment = partition.quarantined_segment ? ` (segment ${partition.quarantined_segment})` : "";
    return stands(0, "bad", "quarantined", partition.quarantine + segment, SOMEBODY.person);
  }
  if (alarm) return stands(2, "warn", "consumer alarm", `consumer ${alarm.name}: ${alarm.alarm}`, SOMEBODY.person);
  if (partition.retention_pinned !== null) {
    return stands(3, "warn", "retention stalled", partition.retention_pinned, SOMEBODY.person);
  }
  if (running) {
    const done = `${share(running.progress.completion_percentage)} done`;
    if (running.abandoned) return stands(5, "warn", "left undone", `${done}; ${running.abandoned}`, SOMEBODY.compactor);
    return stands(5, "run", "running", `${done}: ${running.reason}`);
  }
  if (paused && (partition.due !== null || mine.length)) {
    return stands(6, "off", "paused", partition.due ?? counted(mine.length, "request"), SOMEBODY.resume);
  }
  if (mine.length) return stands(7, "due", "requested", counted(mine.length, "request"), SOMEBODY.compactor);
  if (partition.due !== null) return stands(8, "due", "due", partition.due, SOMEBODY.compactor);
  return idle(paused);
}

// What the work would read is more than what is dirty.
const owedText = ({ debt, work, bytes }) => `${debtText(debt)}: would ${work === "drop" ? "drop" : "read"} ${size(bytes)}`;

// The same of a partition in a survey, which tells less of each and more that needs a person.
export function surveyStanding(each) {
  const { consumers, jobs, debts } = each;
  const running = jobs.find((job) => job.status === "in_progress");
  if (each.quarantine !== null) return stands(0, "bad", "quarantined", each.quarantine, SOMEBODY.person);
  if (each.l0_segments >= each.l0_segments_max) {
    const why = `L0 has ${counted(each.l0_segments, "segment")}, the most that it may have`;
    return stands(1, "bad", "appends are refused", why, each.paused ? SOMEBODY.resume : SOMEBODY.compactor);
  }
  if (consumers.overtaken || consumers.missed) {
    const lost = consumers.overtaken ? `${counted(consumers.overtaken, "consumer")} lost records to retention` : "";
    const missed = consumers.missed ? `${counted(consumers.missed, "consumer")} missed deletions` : "";
    return stands(2, "warn", "consumer alarm", [lost, missed].filter(Boolean).join("; "), SOMEBODY.person);
  }
  if (each.retention_stalled !== null) {
    return stands(3, "warn", "retention stalled", each.retention_stalled, SOMEBODY.person);
  }
  if (each.overdue !== null) return stands(4, "warn", "overdue", each.overdue, "a compactor that runs");
  if (running) {
    const done = running.ranges ? `${running.recorded} of ${counted(running.ranges, "key range")}` : "not yet begun";
    if (each.at_work) return stands(5, "run", "running", done);
    return stands(
      5,
      "warn",
      "left undone",
      `${done}; ${each.compactor || "no compactor"} gives no sign of life`,
      SOMEBODY.compactor,
    );
  }
  const owed = debts.length ? owedText(debts[0]) : "";
  if (each.paused && (jobs.length || debts.length)) {
    return stands(6, "off", "paused", owed || counted(jobs.length, "request"), SOMEBODY.resume);
  }
  if (jobs.length) return stands(7, "due", "requested", counted(jobs.length, "request"), SOMEBODY.compactor);
  if (debts.length) return stands(8, "due", "due", owed, SOMEBODY.compactor);
  return idle(each.paused);
}
