// One topic: its partitions, what a compactor would do in each, its configuration, consumers and checkpoints.

import { ask, askAll, serverNow } from "./api.js";
import { confirmed } from "./dialogs.js";
import { badge, button, facts, failures, h, link, partitionLink, section, table } from "./dom.js";
import { Listing } from "./lists.js";
import { abandoned, isPaused, standing } from "./standing.js";
import { ACTIONS, ago, count, counted, size, time } from "./words.js";

export function topicView(name) {
  const partitions = new Listing("partitions", PARTITION_ORDERS);
  return {
    title: `Topic ${name}`,
    load: async (signal) => {
      const topic = await ask("topic", { topic: name }, { signal });
      const [jobs, explained, checkpoints] = await Promise.all([
        askAll("compactions", { topic: name, status: ["submitted", "in_progress"] }, { signal }),
        askAll("explainTopic", { topic: name }, { signal }),
        askAll("topicCheckpoints", { topic: name, owner: "" }, { signal }),
      ]);
      for (const job of jobs.items) {
        const next = explained.items.find((each) => job.id.startsWith(`${name}/${each.partition}/`));
        if (next && job.status === "in_progress") job.abandoned = abandoned(next);
      }
      return { topic, jobs: jobs.items, explained: explained.items, checkpoints: checkpoints.items };
    },
    wait: ({ topic }) => Math.max(2000, topic.partitions.length * 100),
    draw: (data, ui) => draw(data, partitions, ui),
  };
}

export function pauseButton(topic, ui) {
  const paused = isPaused(topic);
  const words = paused
    ? ["Resume", `Resume ${topic.topic}?`, "Compactions of this topic start again when they are due."]
    : [
        "Pause",
        `Pause ${topic.topic}?`,
        "No compaction of this topic starts, and those that run stop; what they have finished is kept. Appends and retention continue.",
      ];
  const [verb, title, text] = words;
  const work = async () => {
    await ask(paused ? "resume" : "pause", { topic: topic.topic });
    ui.again();
    return `${topic.topic} is ${paused ? "resumed" : "paused"}`;
  };
  return button(`${verb} topic ${topic.topic}`, () => confirmed({ title, text, verb, work }));
}

function draw({ topic, jobs, explained, checkpoints }, list, ui) {
  const partitions = topic.partitions.map((each) => ({ ...each, stands: standing(topic, each, jobs) }));
  const textOf = ({ partition, stands }) => `partition ${partition} ${stands.word}`;
  return [
    h(
      "div",
      { class: "row", key: "tools" },
      h(
        "p",
        { class: "grow" },
        isPaused(topic) ? badge("off", "paused") : null,
        ` ${counted(topic.partitions.length, "partition")}`,
      ),
      pauseButton(topic, ui),
      link(`#/key/${encodeURIComponent(topic.topic)}`, "Look up a key"),
    ),
    section(
      "Partitions",
      failed(topic),
      list.draw("Partitions", PARTITIONS, partitions, { row: (each) => row(topic, each, explained), textOf, ui }),
    ),
    section(
      "Configuration",
      facts(
        [
          ...Object.entries(topic.config),
          ["everything else", "has its default"],
          ["created", time(topic.created_at_ms)],
          ["version", topic.version],
          ["id", topic.topic_id],
        ],
        "settings",
      ),
    ),
    section("Consumers", consumers(topic.partitions)),
    section("Checkpoints", checkpointTable(checkpoints)),
  ];
}

const failed = (topic) => failures(topic.failures.map((each) => ({ topic: topic.topic, ...each })));

const PARTITIONS = [
  ["Partition", ""],
  ["State", ""],
  ["Next", ""],
  ["Records", "number"],
  ["Size", "number"],
  ["L0", "number"],
  ["Runs", "number"],
  ["Dirty", "number"],
  ["Last compacted", "number"],
];

const PARTITION_ORDERS = [
  ["by number", (one, other) => one.partition - other.partition],
  ["worst first", (one, other) => one.stands.rank - other.stands.rank || other.dirty_bytes - one.dirty_bytes],
  ["most dirty first", (one, other) => other.dirty_bytes - one.dirty_bytes],
  ["largest first", (one, other) => other.bytes - one.bytes],
];

function row(topic, partition, explained) {
  const { stands } = partition;
  const next = explained.find((each) => each.partition === partition.partition);
  return {
    key: partition.partition,
    cells: [
      partitionLink(topic.topic, partition.partition, `partition ${partition.partition}`),
      badge(stands.kind, stands.word),
      next ? `${ACTIONS[next.action] ?? next.action}: ${next.reason}` : stands.why,
      count(partition.logical_rows),
      size(partition.bytes),
      count(partition.l0.length),
      count(partition.runs.length),
      `${size(partition.dirty_bytes)} (${partition.dirty_ratio.toFixed(2)})`,
      ago(partition.last_compacted_at, serverNow()),
    ],
  };
}

const CONSUMERS = [
  ["Consumer", ""],
  ["Partition", "number"],
  ["Offset", "number"],
  ["Lag", "number"],
  ["Committed", "number"],
  ["Alarm", ""],
];

export function consumers(partitions) {
  const rows = partitions.flatMap((partition) =>
    partition.consumers.map((each) => ({
      key: `${partition.partition}/${each.name}`,
      cells: [
        each.name,
        partition.partition,
        count(each.offset),
        count(each.lag),
        ago(each.committed_at_ms, serverNow()),
        each.alarm === null ? "none" : [badge("warn", "alarm"), ` ${each.alarm}`],
      ],
    })),
  );
  return rows.length
    ? table("Consumers", CONSUMERS, rows)
    : h("p", { class: "quiet" }, "There are no named consumers.");
}

const CHECKPOINTS = [
  ["Checkpoint", ""],
  ["Partition", "number"],
  ["Made by", ""],
  ["Manifest", "number"],
  ["Created", "number"],
  ["Expires", "number"],
];

function checkpointTable(found) {
  const rows = found.map(({ partition, checkpoint }) => ({
    key: `${partition}/${checkpoint.owner ?? "user"}/${checkpoint.name}`,
    cells: [
      checkpoint.name,
      partition,
      checkpoint.owner ?? "user",
      count(checkpoint.manifest),
      ago(checkpoint.created_at_ms, serverNow()),
      checkpoint.expires_at_ms ? ago(checkpoint.expires_at_ms, serverNow()) : "never",
    ],
  }));
  return rows.length ? table("Checkpoints", CHECKPOINTS, rows) : h("p", { class: "quiet" }, "Nothing is pinned.");
}
