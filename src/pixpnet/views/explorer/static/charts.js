// Line charts as SVG, with their numbers in a table for whoever does not see them.

import { h, svg } from "./dom.js";

// Sizes in the units of the drawing, which is as wide as its place: on a phone text is larger in them (explorer.css).
export const isNarrow = () => window.matchMedia("(max-width: 30rem)").matches;
const WIDE = { width: 640, height: 300, left: 56, right: 16, top: 12, bottom: 36, line: 18 };
const NARROW = { width: 600, height: 340, left: 84, right: 20, top: 16, bottom: 66, line: 28 };

function steps(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
  const result = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) result.push(Number(value.toPrecision(12)));
  return result;
}

const plain = (value) => String(Number(value.toPrecision(4)));

// series: {name, points: [[x, y], ...]}; share: whether y is a fraction, shown in percent; mark: an x to point out.
export function lineChart({ title, xName, series, share = false, from = null, mark = null, markName = "", dots = true }) {
  const xs = series.flatMap((one) => one.points.map((point) => point[0]));
  const ys = series.flatMap((one) => one.points.map((point) => point[1]));
  const [xLow, xHigh] = [Math.min(...xs), Math.max(...xs, Math.min(...xs) + 1e-9)];
  const low = from === null ? Math.min(...ys) : from;
  const high = Math.max(...ys, low + 1e-9);
  const { width, height, left, right, top, bottom, line } = isNarrow() ? NARROW : WIDE;
  const x = (value) => left + ((value - xLow) / (xHigh - xLow)) * (width - left - right);
  const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - top - bottom);
  const words = (value) => (share ? `${plain(100 * value)} %` : plain(value));
  const whole = series.every((one) => one.points.every((point) => Number.isInteger(point[0])));
  const xSteps = steps(xLow, xHigh, 8).filter((value) => !whole || Number.isInteger(value));
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: the numbers are in the table below` },
    steps(low, high, 5).map((value) => svg("g", null, svg("path", { class: "grid", d: `M${left} ${y(value)}H${width - right}` }),
      svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, words(value)))),
    xSteps.map((value) => svg("text", { x: x(value), y: height - bottom + line, "text-anchor": "middle" }, plain(value))),
    svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xName),
    mark === null ? null : svg("path", { class: "marked", d: `M${x(mark)} ${top}V${height - bottom}` }),
    series.map((one, index) => svg("g", { class: `series s${index % 6}` },
      svg("path", { class: "line", d: one.points.map((point, at) => `${at ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("") }),
      dots ? one.points.map((point) => svg("circle", { cx: x(point[0]), cy: y(point[1]), r: 3 }, svg("title", null, `${one.name}, ${xName} ${plain(point[0])}: ${words(point[1])}`))) : null)));
  const names = series.map((one) => one.name);
  const lookup = series.map((one) => new Map(one.points.map((point) => [point[0], point[1]])));
  const rows = [...new Set(xs)].sort((a, b) => a - b);
  return h("figure", { class: "plot" }, h("figcaption", null, h("b", null, title), " ",
    names.map((name, index) => h("span", { class: "label" }, h("i", { class: `key f${index % 6}` }), name)),
    mark === null ? null : h("span", { class: "label muted" }, `┊ ${markName}`)), chart,
    h("details", null, h("summary", { class: "small" }, `The numbers of ${title.toLowerCase()}`), h("div", { class: "table", tabindex: "0", role: "group", "aria-label": `Numbers of ${title}` },
      h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col", class: "number" }, xName), names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
        h("tbody", null, rows.map((value) => h("tr", null, h("th", { scope: "row", class: "number" }, plain(value)), lookup.map((points) => h("td", { class: "number" }, points.has(value) ? words(points.get(value)) : "–")))))))));
}
