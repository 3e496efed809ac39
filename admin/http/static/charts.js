// Pictures from numbers: a bar of parts, lines over time, columns. Their texts are beside the drawing, so that they do
// not shrink with it; what a picture shows is also said in a sentence.

import { h, svg } from "./dom.js";

const STRETCHED = { preserveAspectRatio: "none", role: "img" };

// `parts`: { kind, name, amount, shown, why }; those of nothing are left out.
export function partsBar(title, said, parts) {
  const drawn = parts.filter(({ amount }) => amount > 0);
  const whole = drawn.reduce((total, { amount }) => total + amount, 0);
  let x = 0;
  const boxes = drawn.map(({ kind, name, amount, shown }) => {
    const width = (amount / whole) * 1000;
    const box = svg(
      "rect",
      { x: x + 1, y: 0, width: Math.max(width - 2, 2), height: 10, class: kind },
      svg("title", {}, `${name}: ${shown}`),
    );
    x += width;
    return box;
  });
  return h(
    "figure",
    { key: title },
    caption(title, said),
    whole ? svg("svg", { ...STRETCHED, class: "parts", viewBox: "0 0 1000 10", "aria-label": said }, boxes) : null,
    whole ? legend(drawn) : null,
  );
}

const caption = (title, said) => h("figcaption", {}, h("strong", {}, title), " ", said);

const swatch = (kind) =>
  svg(
    "svg",
    { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" },
    svg("rect", { x: 0.5, y: 0.5, width: 9, height: 9, class: kind }),
  );

export const legend = (parts) =>
  h(
    "ul",
    { class: "legend" },
    parts.map(({ kind, name, shown, why }) =>
      h("li", {}, swatch(kind), h("span", {}, shown ? [h("b", {}, shown), " "] : null, name, why ? `: ${why}` : null)),
    ),
  );

// `series`: { kind, name, shown, points: [[x, y]] }, x ascending; `from`, `to`: texts below the ends.
export function lines(title, said, series, { top, from, to }) {
  const xs = series.flatMap(({ points }) => points.map(([x]) => x));
  const ys = series.flatMap(({ points }) => points.map(([, y]) => y));
  const [first, last, most] = [Math.min(...xs), Math.max(...xs), Math.max(...ys, 1)];
  const place = ([x, y]) => `${((x - first) / Math.max(last - first, 1)) * 1000},${100 - (y / most) * 96}`;
  const drawn = series.map(({ kind, points }) => svg("polyline", { class: kind, points: points.map(place).join(" ") }));
  return plot(title, said, drawn, series, { top: top(most), from, to });
}

// `groups`: { title, name, parts: [{ kind, amount }] }, each a column of stacked parts, all of one scale. If they have
// names, these stand below, else `from` and `to` below the first and the last.
export function columns(title, said, groups, parts, { top, from, to }) {
  const sum = (group) => group.parts.reduce((total, { amount }) => total + amount, 0);
  const most = Math.max(...groups.map(sum), 1);
  const step = 1000 / Math.max(groups.length, 1);
  const drawn = groups.flatMap((group, index) => {
    let y = 100;
    return group.parts
      .filter(({ amount }) => amount > 0)
      .map(({ kind, amount }) => {
        const height = Math.max((amount / most) * 96, 1);
        y -= height;
        const at = { x: index * step + step * 0.1, y, width: step * 0.8, height, class: kind };
        return svg("rect", at, svg("title", {}, group.title));
      });
  });
  const names = groups.filter(({ name }) => name).map(({ name }) => h("span", {}, name));
  return plot(title, said, drawn, parts, { top: top(most), from, to, names });
}

function plot(title, said, drawn, parts, { top, from, to, names = [] }) {
  const ground = svg("line", { class: "axis", x1: 0, x2: 1000, y1: 100, y2: 100 });
  const ends = [h("span", {}, from), h("span", { class: "to" }, to)];
  return h(
    "figure",
    { key: title },
    caption(title, said),
    h(
      "div",
      { class: "plot" },
      h("span", { class: "top" }, top),
      svg("svg", { ...STRETCHED, viewBox: "0 0 1000 101", "aria-label": said }, ground, drawn),
      names.length ? h("span", { class: "names" }, names) : ends,
    ),
    legend(parts),
  );
}
