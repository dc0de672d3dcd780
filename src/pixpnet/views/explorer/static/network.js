// Network: how much of the image the cells of each layer see, and the cut that is in use.

import { isNarrow } from "./charts.js";
import { h, loading, show, svg } from "./dom.js";
import { shot, styleOf } from "./regions.js";

export async function render(root, params, api) {
  document.title = `Network · ${api.about.run}`;
  show(root, h("h1", null, "What the network looks at"), loading("Working out the receptive field of every layer"));
  const facts = await api.get("/api/network");
  const cut = facts.cut ? `cut at ${facts.cut}` : "not cut";
  show(root, h("h1", null, "What the network looks at"),
    h("p", { class: "lead" }, `${facts.model || "This network"}, ${cut}, on images of ${facts.size} × ${facts.size} pixels: a cell sees ${facts.mean} of the image on average.`),
    facts.windows ? h("p", null, facts.windows) : null,
    facts.edits.length ? h("p", null, `Edited before it was cut: ${facts.edits.join(", ")}.`) : null,
    h("p", { class: "claim" }, "A prototype is compared with cells. What a cell sees is its receptive field: no pixel outside it can change its similarity."),
    facts.grids.map((grid) => gridSection(grid, facts, api)),
    facts.layers.length ? layers(facts) : h("p", { class: "note" }, "The fields of single layers cannot be told for this network."));
}

function gridSection(grid, facts, api) {
  const marks = grid.everything === "100\u00a0%" ? [] : grid.landmarks.filter((mark) => mark.region);
  const url = api.picture("/api/prototypes/0/picture");
  return h("section", { "aria-label": `Cells of ${grid.layer}` }, h("h2", null, facts.grids.length > 1 ? `Cells of ${grid.layer}` : "What its cells see"),
    h("div", { class: "sees" }, h("div", null, shot({ url, width: facts.size, height: facts.size, label: `What cells of ${grid.layer} see of an image`,
      marks: marks.map((mark, index) => ({ path: mark.region.path, group: index })) })),
    h("div", null, h("ul", null, marks.map((mark, index) => h("li", null, h("i", { class: `key f${styleOf(index)}` }), `${mark.name} cell`))),
      h("p", null, `${grid.cells} cells, ${grid.prototypes} prototypes. On average a cell sees ${grid.mean} of the image, at most ${grid.largest}.`),
      grid.everything ? h("p", { class: "note" }, `${grid.everything} of the cells see the whole image.`) : null,
      grid.moves ? h("p", { class: "muted" }, `That is said ${grid.moves}`) : null)));
}

function layers(facts) {
  const rows = facts.layers;
  const [width, height, left, top, bottom, line] = isNarrow() ? [600, 340, 84, 16, 66, 28] : [960, 320, 48, 12, 40, 16];
  const x = (index) => left + (index / Math.max(1, rows.length - 1)) * (width - left - 12);
  const most = [.05, .1, .2, .25, .5, 1].find((value) => value >= Math.max(...rows.map((row) => row.mean))) || 1;
  const y = (value) => height - bottom - (value / most) * (height - top - bottom);
  const words = h("p", { class: "muted", role: "status" }, "Point at a layer, or find it in the table.");
  const say = (row) => { words.textContent = `${row.layer}${row.paper_name ? ` (${row.paper_name})` : ""}: ${row.output}, a cell sees ${row.mean_words} on average, at most ${row.size} pixels.${row.used ? " This is the cut in use." : ""}`; };
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Mean field over depth: the numbers are in the table below" },
    [0, .2, .4, .6, .8, 1].map((share) => share * most).map((value) => svg("g", null, svg("path", { class: "grid", d: `M${left} ${y(value)}H${width - 12}` }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, `${Number((100 * value).toFixed(1))} %`))),
    rows.map((row, index) => (row.used ? svg("g", null, svg("path", { class: "marked", d: `M${x(index)} ${top}V${height - bottom}` }), svg("text", { x: x(index), y: height - bottom + line, "text-anchor": index > rows.length / 2 ? "end" : "start", class: "strong" }, `in use: ${row.layer}`)) : null)),
    svg("g", { class: "series s0" }, svg("path", { class: "line", d: rows.map((row, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(row.mean).toFixed(1)}`).join("") }),
      rows.map((row, index) => svg("circle", { cx: x(index), cy: y(row.used && facts.on_windows !== null ? facts.on_windows : row.mean), r: row.used ? 6 : 3.5, class: row.used ? "used" : null, onpointerenter: () => say(row) }, svg("title", null, `${row.layer}: ${row.mean_words}`)))),
    svg("text", { x: width - 12, y: height - 4, "text-anchor": "end" }, "depth →"));
  const windows = facts.on_windows === null ? "" : ` These are fields on the whole image; on its windows a cell sees ${facts.mean}, which the filled dot shows.`;
  const missing = facts.whole ? "" : " What lies behind the cut is not known any more.";
  return h("section", { "aria-labelledby": "depth" }, h("h2", { id: "depth" }, "Fields over depth"),
    h("p", null, `The mean share of the image that a cell of each layer sees, in the order in which layers are computed.${windows}${missing}`), chart, words,
    h("details", { open: rows.length <= 20 }, h("summary", null, `All ${rows.length} layers`), h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "All layers" }, h("table", null,
      h("thead", null, h("tr", null, ["layer", "output", "mean field", "largest field", "stride"].map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)))),
      h("tbody", null, rows.map((row) => h("tr", { class: row.used ? "used" : null }, h("th", { scope: "row" }, row.layer, row.paper_name ? h("span", { class: "muted" }, ` ${row.paper_name}`) : null, row.used ? h("b", { class: "good" }, " ← cut in use") : null),
        [row.output, row.mean_words, row.size, row.stride].map((value) => h("td", { class: "number" }, value)))))))));
}
