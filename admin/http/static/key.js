// One key: every version of it that is stored, and what readers see of each.

import { ask, askAll } from "./api.js";
import { badge, h, section, table } from "./dom.js";
import { asciiOf, base64Of, bytesOf, count, counted, hexOf, readable, size, textOf, time } from "./words.js";

const KINDS = { latest: "ok", superseded: "off", expired: "off", "left behind": "warn" };

export function keyView(given = "") {
  let found = null;
  let problem = "";
  let busy = false;
  let names = null;

  async function lookUp(event, ui) {
    event.preventDefault();
    const form = new FormData(event.target);
    const values = form.get("values") !== null;
    problem = "";
    busy = true;
    ui.redraw();
    try {
      const base64 =
        form.get("form") === "base64" ? form.get("key").trim() : base64Of(new TextEncoder().encode(form.get("key")));
      const wanted = { topic: form.get("topic"), key_base64: base64, limit: 100, values: values || undefined };
      found = { ...(await ui.guarded(() => ask("key", wanted))), values };
    } catch (error) {
      found = null;
      problem = error.message;
    }
    busy = false;
    ui.redraw();
  }

  function draw(_, ui) {
    if (names === null) {
      names = [];
      const fill = async () => {
        try {
          names = (await ui.guarded(() => askAll("topics"))).items.map((each) => each.topic);
        } catch (error) {
          problem = error.message;
        }
        ui.redraw();
      };
      fill();
    }
    return [
      h(
        "form",
        { key: "form", class: "ask", submit: (event) => lookUp(event, ui) },
        h(
          "div",
          {},
          h("label", { for: "key-topic" }, "Topic"),
          h("input", { id: "key-topic", name: "topic", list: "topics", required: true, value: given }),
        ),
        h(
          "datalist",
          { id: "topics" },
          names.map((name) => h("option", { value: name, key: name })),
        ),
        h(
          "div",
          {},
          h("label", { for: "key-key" }, "Key"),
          h("input", { id: "key-key", name: "key", autocomplete: "off", spellcheck: "false" }),
        ),
        h(
          "fieldset",
          {},
          h("legend", {}, "The key is given as"),
          h("label", {}, h("input", { type: "radio", name: "form", value: "text", checked: true }), " text (UTF-8)"),
          h("label", {}, h("input", { type: "radio", name: "form", value: "base64" }), " base64"),
        ),
        h(
          "label",
          {},
          h("input", { type: "checkbox", name: "values" }),
          " show values and headers (takes the role operate)",
        ),
        h("button", { type: "submit", class: "primary" }, "Look up"),
      ),
      h("p", { key: "problem", class: "problem", role: "alert" }, problem),
      h(
        "div",
        { key: "found", "aria-live": "polite", "aria-busy": String(busy) },
        busy ? h("p", {}, "Reading…") : found ? history(found) : null,
      ),
    ];
  }

  return { title: "Look up a key", draw };
}

const COLUMNS = [
  ["Offset", "number"],
  ["Partition", "number"],
  ["State", ""],
  ["Time", "number"],
  ["Value", ""],
  ["Segment", ""],
];

function history(found) {
  const rows = found.versions.map((each) => ({
    key: `${each.partition}/${each.offset}`,
    cells: [
      count(each.offset),
      each.partition,
      badge(KINDS[each.state] ?? "off", each.state),
      time(each.timestamp_ms),
      value(each, found.values),
      [h("code", {}, each.segment), each.run ? ` in run ${each.run}` : " in L0"],
    ],
  }));
  const [first] = found.versions;
  const seen =
    first?.state !== "latest"
      ? "readers see nothing"
      : first.tombstone
        ? "it is deleted"
        : found.versions.length === 1
          ? "readers see it"
          : "readers see the first of them";
  return section(
    `Versions of ${readable(found.key)}`,
    h(
      "p",
      {},
      rows.length
        ? `${counted(rows.length, "version")}; the key lives in partition ${found.home}; ${seen}.`
        : `Nothing is stored of it; it would live in partition ${found.home}.`,
    ),
    rows.length ? table("Versions, from the latest to the oldest", COLUMNS, rows) : null,
    found.more ? h("p", { class: "quiet" }, "There are older ones.") : null,
  );
}

// As text, and in hexadecimal digits for what text does not show.
function contents(bytes) {
  if (!bytes.length) return h("p", { class: "quiet" }, "empty");
  const text = textOf(bytes);
  const hex = h("pre", { class: "quiet" }, hexOf(bytes));
  return text === null
    ? [h("pre", {}, asciiOf(bytes)), hex]
    : [h("pre", {}, text), h("details", {}, h("summary", {}, `${counted(bytes.length, "byte")} in hexadecimal`), hex)];
}

function value(each, values) {
  if (each.tombstone) return "tombstone: the key is deleted";
  if (!values) return size(each.value_bytes);
  const headers = each.headers.map(([name, content]) => `${name}: ${content === null ? "null" : readable(content)}`);
  return [contents(bytesOf(each.value)), headers.length ? h("p", { class: "quiet" }, headers.join(", ")) : null];
}
