// A quarantined partition: what is damaged, what goes on meanwhile, and what a person does.

import { ask, serverNow } from "./api.js";
import { confirmed } from "./dialogs.js";
import { button, facts, h, section } from "./dom.js";
import { ago, count, counted, time } from "./words.js";

const RUNBOOK = "docs/runbook.md, LithifyQuarantined";
const ADVICE = /\. Run `lithify verify`.*$/; // which is given below

export function quarantined(partition, manifest, ui) {
  const { topic, quarantine, quarantined_segment: damaged } = partition;
  const live = [...partition.l0, ...partition.runs.flatMap((run) => run.segments)];
  const found = live.find((each) => each.id === damaged);
  const since = manifest.quarantine?.since_ms;
  const holds = found
    ? `offsets ${count(found.min_offset)} to ${count(found.max_offset)}, ${counted(found.rows, "record")}`
    : "it is no longer in the log";
  return section(
    "Quarantine",
    h("p", {}, quarantine.replace(ADVICE, ".")),
    facts([
      ["damaged segment", h("code", {}, damaged)],
      ["it holds", holds],
      ["since", since ? `${time(since)} (${ago(since, serverNow())})` : ""],
      ["meanwhile", "compaction of this partition has stopped; appends go on; reads of the damaged segment fail"],
    ]),
    h(
      "ol",
      {},
      h("li", {}, "Run ", h("code", {}, `lithify verify ${topic}`), ": it finds all that is damaged."),
      h("li", {}, "Restore those objects from a copy: the bucket’s versions, a replica or a backup."),
      h("li", {}, "Have the segment checked. If it is whole, the quarantine ends."),
    ),
    h(
      "p",
      { class: "row" },
      button("Check the segment again", () => retry(partition, ui)),
      h("span", { class: "quiet" }, `More is in ${RUNBOOK}.`),
    ),
  );
}

function retry(partition, ui) {
  const place = { topic: partition.topic, partition: partition.partition };
  return confirmed({
    title: "Lift the quarantine?",
    text: [
      partition.quarantine,
      "The damaged segment is read and checked first. If it is still damaged, nothing changes.",
    ],
    verb: "Check and lift",
    work: async () => {
      const { lifted } = await ask("retry", place);
      ui.again();
      return lifted
        ? `The quarantine of ${place.topic}/${place.partition} is lifted`
        : "There was no quarantine any more";
    },
  });
}
