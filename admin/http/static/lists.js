// Long lists: some rows at a time, with a filter and an order.

import { button, h, table } from "./dom.js";
import { count } from "./words.js";

const SHOWN = 50;

export class Listing {
  // `name` tells it from others; `orders`: [name, what compares two items], the first is used until another is chosen.
  constructor(name, orders = []) {
    this.name = name;
    this.orders = orders;
    this.order = 0;
    this.wanted = "";
    this.most = SHOWN;
  }

  // `row(item)` as for `table`; `textOf(item)` is what the filter looks in.
  draw(caption, columns, items, { row, textOf, ui }) {
    const wanted = this.wanted.toLowerCase();
    const found = wanted ? items.filter((item) => textOf(item).toLowerCase().includes(wanted)) : [...items];
    if (this.orders.length) found.sort(this.orders[this.order][1]);
    const left = found.length - this.most;
    const more = () => {
      this.most += 4 * SHOWN;
      ui.redraw();
    };
    return [
      items.length > SHOWN ? this.controls(items, found, ui) : null,
      found.length
        ? table(caption, columns, found.slice(0, this.most).map(row))
        : h("p", { class: "quiet", key: `${this.name}-none` }, "None has this in its name."),
      left > 0
        ? h(
            "p",
            { class: "row", key: `${this.name}-more` },
            h("span", { class: "quiet" }, `and ${count(left)} more`),
            button(`Show ${count(Math.min(left, 4 * SHOWN))} more`, more, { "aria-label": `Show more of: ${caption}` }),
          )
        : null,
    ];
  }

  controls(items, found, ui) {
    const input = (event) => {
      this.wanted = event.target.value;
      this.most = SHOWN;
      ui.redraw();
    };
    const change = (event) => {
      this.order = Number(event.target.value);
      ui.redraw();
    };
    const [filter, order] = [`${this.name}-filter`, `${this.name}-order`];
    const said = found.length < items.length ? `${count(found.length)} of ${count(items.length)}` : count(items.length);
    return h(
      "div",
      { class: "row", key: `${this.name}-controls` },
      h("label", { for: filter }, "Filter"),
      h("input", { id: filter, type: "search", autocomplete: "off", spellcheck: "false", input }),
      this.orders.length ? [h("label", { for: order }, "Order"), this.choice(order, change)] : null,
      h("span", { class: "quiet" }, said),
    );
  }

  choice(id, change) {
    const options = this.orders.map(([name], index) => h("option", { value: index }, name));
    return h("select", { id, change }, options);
  }
}
