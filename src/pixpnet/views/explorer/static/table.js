// A table that a person sorts by clicking on its heads.

import { h } from "./dom.js";

// columns: {name, number, value: what is sorted by, cell: what is shown}; sorted: the column to begin with.
export function sortable(caption, columns, lines, sorted, attributes = {}) {
  let by = sorted;
  let down = false;
  const body = h("tbody");
  const heads = columns.map((column, index) => h("th", { scope: "col", class: column.number ? "number" : null },
    column.value ? h("button", { type: "button", class: "sort", onclick: () => { down = by === index ? !down : false; by = index; draw(); } }, column.name) : column.name));

  function draw() {
    const value = columns[by].value;
    const order = [...lines].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      const less = typeof a === "string" ? a.localeCompare(b) : a - b;
      return down ? -less : less;
    });
    heads.forEach((head, index) => {
      if (index === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...order.map((line) => h("tr", null, columns.map((column) => h("td", { class: column.number ? "number" : null }, column.cell(line))))));
  }
  draw();
  return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": caption, ...attributes },
    h("table", null, h("caption", null, caption), h("thead", null, h("tr", null, heads)), body));
}
