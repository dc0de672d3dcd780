// Pictures with exact regions on them, in the pixels that the network saw. Outlines come from the server as SVG paths.

import { h, svg } from "./dom.js";

let clips = 0;
const COLORS = 6;

export function styleOf(group) {
  return group % COLORS;
}

// One picture: `view` is the box [y0, x0, y1, x1] that is in view, `marks` are outlines on it, `clip` a region outside
// of which nothing is painted.
export function shot({ url, width, height, view, label, marks = [], clip = null, part = false, source = false, heat = null }) {
  const [y0, x0, y1, x1] = view || [0, 0, height, width];
  const id = clip ? `clip-${clips++}` : "";
  const frame = `M0 0H${width}V${height}H0Z`;
  return svg("svg", { class: `shot${part ? " part" : ""}${source ? " source" : ""}`, viewBox: `${x0} ${y0} ${x1 - x0} ${y1 - y0}`, role: "img", "aria-label": label },
    clip ? svg("defs", null, svg("clipPath", { id }, svg("path", { d: clip, "clip-rule": "evenodd" }))) : null,
    svg("image", { href: url, width, height, preserveAspectRatio: "none", "clip-path": clip ? `url(#${id})` : null, class: "pixels" }),
    heat,
    marks.map((mark) => svg("path", { class: `dim g${mark.group}`, "fill-rule": "evenodd", d: frame + mark.path })),
    [...marks].reverse().map((mark) => svg("g", { class: `mark g${mark.group}${mark.group === 0 ? " first" : ""}` },
      svg("path", { class: "halo", d: mark.path, "vector-effect": "non-scaling-stroke" }),
      svg("path", { class: `edge s${styleOf(mark.group)}${mark.group >= COLORS ? " dashed" : ""}`, d: mark.path, "vector-effect": "non-scaling-stroke" }))));
}

// Only what a cell sees of a picture.
export function partShot(picture, region, label) {
  if (!region) return h("div", { class: "nothing" }, "sees padding only");
  return shot({ ...picture, view: region.hull, clip: region.solid ? null : region.path, label, part: true });
}

export function rowsAndColumns(hull) {
  if (!hull) return "nothing but padding";
  const [y0, x0, y1, x1] = hull;
  return `rows ${y0} to ${y1 - 1}, columns ${x0} to ${x1 - 1}`;
}
