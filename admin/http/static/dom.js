// Elements from data. Text is always a text node: whatever a name holds, it is shown and never run.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "hidden", "disabled", "open"]);

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node[`on${name}`] = value;
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// h("a", { href: "#/", click: go, key: "x" }, "text", node): `key` tells it from others beside it, from look to look.
export function h(tag, attributes, ...children) {
  const { key, ...rest } = attributes ?? {};
  const node = made(document.createElement(tag), rest, children.map(text));
  if (key !== undefined) node.dataset.key = key;
  return node;
}

export function svg(tag, attributes, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children.map(text));
}

const text = (child) => (typeof child === "number" ? String(child) : child);

export const link = (href, ...children) => h("a", { href }, ...children);

export const topicLink = (topic) => link(`#/topic/${encodeURIComponent(topic)}`, topic);

export const partitionLink = (topic, partition, shown = `${topic}/${partition}`) =>
  link(`#/topic/${encodeURIComponent(topic)}/${partition}`, shown);

// `columns`: [name, "number" or ""]. `rows`: { key, cells }, a cell being what `h` takes.
export function table(caption, columns, rows, { shown = false } = {}) {
  const head = columns.map(([name, kind]) =>
    h("th", { scope: "col", role: "columnheader", class: kind || null }, name),
  );
  const body = rows.map(({ key, cells, mark }) =>
    h(
      "tr",
      { key, role: "row", class: mark },
      cells.map((cell, index) => {
        const [name, kind] = columns[index];
        const attributes = { class: kind || null, "data-label": name };
        return index === 0
          ? h("th", { scope: "row", role: "rowheader", ...attributes }, cell)
          : h("td", { role: "cell", ...attributes }, h("span", {}, cell));
      }),
    ),
  );
  return h(
    "table",
    { role: "table" },
    h("caption", { class: shown ? null : "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, body),
  );
}

// Terms and what they are; those without a value are left out.
export function facts(pairs, kind = "") {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const pair = ([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value));
  return h("dl", { class: `facts ${kind}`.trim() }, known.map(pair));
}

// A state in a word, with a sign, so that it is not told by colour alone.
const SIGNS = { bad: "✕", warn: "!", run: "▶", due: "•", off: "‖", ok: "✓" };

export const badge = (kind, word) =>
  h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, `${SIGNS[kind]} `), word);

export function section(title, ...children) {
  const id = `section-${title.replace(/\W+/g, "-").toLowerCase()}`;
  return h("section", { key: title, "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export const button = (name, click, attributes = {}) => h("button", { type: "button", click, ...attributes }, name);

export const failures = (failed) =>
  failed.map((each) =>
    h(
      "p",
      { class: "problem", key: `${each.topic}/${each.partition}` },
      badge("bad", "cannot be read"),
      ` ${each.topic}${each.partition === null ? "" : `/${each.partition}`}: ${each.fault.message}`,
    ),
  );

// Makes `old` show what `fresh` does, and keeps what the user holds: the focus, what is selected, opened or typed.
export function morph(old, fresh) {
  attributesLike(old, fresh);
  const named = new Map();
  for (const child of old.childNodes) if (child.dataset?.key) named.set(child.dataset.key, child);
  const wantedKeys = new Set(Array.from(fresh.childNodes, (child) => child.dataset?.key));
  for (const [key, child] of named) if (!wantedKeys.has(key)) child.remove();
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    const found = key ? named.get(key) : alike(place, wanted) ? place : null;
    if (found && found.nodeName === wanted.nodeName) {
      if (found === place) place = place.nextSibling;
      else old.insertBefore(found, place);
      if (found.nodeType === Node.TEXT_NODE) {
        if (found.data !== wanted.data) found.data = wanted.data;
      } else {
        morph(found, wanted);
      }
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

const alike = (place, wanted) => place && place.nodeName === wanted.nodeName && !place.dataset?.key;

function attributesLike(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
  for (const name of ["onclick", "onsubmit", "onchange", "oninput"])
    if (old[name] !== fresh[name]) old[name] = fresh[name];
  if (old.nodeName === "PROGRESS" && old.value !== fresh.value) old.value = fresh.value;
}
