// All compactions: those that are active, or every one that is remembered.

import { askAll } from "./api.js";
import { failures, h } from "./dom.js";
import { JOBS, jobRow } from "./jobs.js";
import { Listing } from "./lists.js";
import { isPaused } from "./standing.js";
import { counted, isActive, placeOf } from "./words.js";

const CHOICES = [
  ["active", "active", ["submitted", "in_progress"]],
  ["all", "all that are remembered", undefined],
  ["failed", "failed", ["failed"]],
  ["completed", "completed", ["completed"]],
  ["cancelled", "cancelled", ["cancelled"]],
];

async function markPaused(jobs, signal) {
  const topics = await askAll("topics", {}, { signal });
  const paused = new Set(topics.items.filter(isPaused).map(({ topic }) => topic));
  for (const job of jobs) job.paused = paused.has(placeOf(job).topic);
}

export function compactionsView() {
  let chosen = "active";
  const list = new Listing("compactions");
  return {
    title: "Compactions",
    load: async (signal) => {
      const status = CHOICES.find(([name]) => name === chosen)[2];
      const jobs = await askAll("compactions", { status }, { signal, pages: 1 });
      if (jobs.items.some(isActive)) await markPaused(jobs.items, signal);
      return jobs;
    },
    draw: (data, ui) => {
      const change = (event) => {
        chosen = event.target.value;
        ui.again();
      };
      const options = CHOICES.map(([name, shown]) => h("option", { value: name }, shown));
      const jobs = [...data.items].sort(
        (one, other) => Number(isActive(other)) - Number(isActive(one)) || other.created_at - one.created_at,
      );
      return [
        h(
          "p",
          { class: "row", key: "choice" },
          h("label", { for: "status" }, "Show"),
          h("select", { id: "status", change }, options),
        ),
        failures(data.failed),
        jobs.length
          ? h(
              "div",
              { key: "table" },
              list.draw("Compactions", JOBS, jobs, { row: jobRow, textOf: ({ id }) => id, ui }),
            )
          : h("p", { class: "quiet", key: "none" }, "There are none."),
        data.more
          ? h("p", { class: "quiet", key: "more" }, `Only the first ${counted(jobs.length, "compaction")} of the list.`)
          : null,
      ];
    },
  };
}
