// How a partition stands: what it owes, and whom it waits for. Pure.

import { counted, isActive, share, span } from "./words.js";

const SOMEBODY = { person: "a person", compactor: "a compactor", resume: "the topic to be resumed" };

export const isPaused = (topic) => topic.config["compaction.paused"] === "true";

// A job that is running by its status, although nobody works on it: says since when. "": somebody does.
export function abandoned({ compactor, at_ms: now }) {
  if (compactor === null) return "no compactor has worked on it yet";
  if (compactor.at_work) return "";
  const seen = compactor.seen_ms === null ? "" : ` for ${span(Math.max(now - compactor.seen_ms, 0))}`;
  return `${compactor.name} gave no sign of life${seen}`;
}

// { rank, kind, word, why, who }: the lowest rank first; `kind` is that of a badge.
export function standing(topic, partition, jobs) {
  const mine = jobs.filter((job) => job.id.startsWith(`${topic.topic}/${partition.partition}/`) && isActive(job));
  const running = mine.find((job) => job.status === "in_progress");
  if (partition.quarantine !== null) {
    const why =
      partition.quarantine + (partition.quarantined_segment ? ` (segment ${partition.quarantined_segment})` : "");
    return { rank: 0, kind: "bad", word: "quarantined", why, who: SOMEBODY.person };
  }
  const alarm = partition.consumers.find((consumer) => consumer.alarm !== null);
  if (alarm) {
    const why = `consumer ${alarm.name}: ${alarm.alarm}`;
    return { rank: 1, kind: "warn", word: "consumer alarm", why, who: SOMEBODY.person };
  }
  if (partition.retention_pinned !== null) {
    return { rank: 2, kind: "warn", word: "retention stalled", why: partition.retention_pinned, who: SOMEBODY.person };
  }
  if (running) {
    const done = share(running.progress.completion_percentage);
    if (running.abandoned) {
      const why = `${done} done; ${running.abandoned}`;
      return { rank: 3, kind: "warn", word: "left undone", why, who: SOMEBODY.compactor };
    }
    return { rank: 3, kind: "run", word: "running", why: `${done} done: ${running.reason}`, who: "" };
  }
  if (isPaused(topic) && (partition.due !== null || mine.length)) {
    return {
      rank: 4,
      kind: "off",
      word: "paused",
      why: partition.due ?? counted(mine.length, "request"),
      who: SOMEBODY.resume,
    };
  }
  if (mine.length) {
    return { rank: 5, kind: "due", word: "requested", why: counted(mine.length, "request"), who: SOMEBODY.compactor };
  }
  if (partition.due !== null) {
    return { rank: 6, kind: "due", word: "due", why: partition.due, who: SOMEBODY.compactor };
  }
  if (isPaused(topic)) return { rank: 7, kind: "off", word: "paused", why: "nothing is due", who: "" };
  return { rank: 8, kind: "ok", word: "nothing is due", why: "", who: "" };
}
