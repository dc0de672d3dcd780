// The asked image, large: regions of terms light up on it, every cell shows its exact field, and a switch shows what
// upsampling would have claimed.

import { failure, h, show, svg } from "./dom.js";
import { rowsAndColumns, shot } from "./regions.js";

let switches = 0;

export function viewer({ answer, api, url }, explained, why) {
  const { width, height, id } = answer.image;
  const shown = explained.terms.filter((term) => term.region && !term.everything);
  const marks = [];
  for (const term of shown) if (!marks.some((mark) => mark.group === term.group)) marks.push({ path: term.region.path, group: term.group });
  const heat = svg("image", { class: "heat", width, height, preserveAspectRatio: "none" });
  const claim = svg("path", { class: "claimed", "vector-effect": "non-scaling-stroke" });
  const field = svg("path", { class: "cell", "vector-effect": "non-scaling-stroke" });
  const picture = shot({ url, width, height, marks, heat, label: `The image ${answer.image.name}${answer.sees_everything ? "" : ` with the regions of the terms for ${explained.name}`}` });
  picture.append(claim, field);
  const words = h("span", { class: "cell-words", "aria-live": "polite" }, answer.sight);
  const claimWords = h("div", { class: "small" });
  let cells = null;
  let place = null;
  let active = shown[0] || null;
  let upsampling = false;

  const grid = () => (cells && active ? cells.grids[active.grid] : cells && cells.grids[0]);
  let pending = null; // asked for once, however often the pointer moves meanwhile
  async function loadCells() {
    pending ??= api.get(`/api/images/${encodeURIComponent(id)}/cells`);
    try {
      cells = await pending;
    } catch (error) {
      pending = null; // the next move asks again
      words.textContent = error.message;
    }
  }
  function showCell() {
    const from = grid();
    if (!from || !place) { field.setAttribute("d", ""); words.textContent = answer.sight; return; }
    const cell = from.cells[place[0] * from.cols + place[1]];
    field.setAttribute("d", cell.path);
    const layer = cells.grids.length > 1 && from.layer ? ` of ${from.layer}` : "";
    words.textContent = `Cell ${place[0]}, ${place[1]}${layer} sees ${rowsAndColumns(cell.hull)}: ${cell.sees} of the image, and nothing else.`;
  }
  // The cell in the middle of whose field the pointer is, as near as there is one.
  function nearest(x, y) {
    const from = grid();
    let best = null;
    let least = Infinity;
    from.cells.forEach((cell, index) => {
      if (!cell.hull) return;
      const [y0, x0, y1, x1] = cell.hull;
      const distance = (x - (x0 + x1) / 2) ** 2 + (y - (y0 + y1) / 2) ** 2;
      if (distance < least) { least = distance; best = [Math.floor(index / from.cols), index % from.cols]; }
    });
    return best;
  }
  const stage = h("div", { class: "stage", tabindex: "0", role: "group", "aria-label": "The image. Arrow keys walk over its cells and show what each of them sees." }, picture);
  stage.addEventListener("pointermove", async (event) => {
    const box = picture.getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
    await loadCells();
    if (!grid() || !stage.matches(":hover")) return;
    place = nearest(x, y);
    why.classList.add("walking");
    showCell();
  });
  const away = () => { place = null; why.classList.remove("walking"); showCell(); };
  stage.addEventListener("pointerleave", away);
  stage.addEventListener("blur", away);
  stage.addEventListener("keydown", async (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") { away(); return; }
    if (!step) return;
    event.preventDefault();
    await loadCells();
    const from = grid();
    if (!from) return;
    const start = place || [Math.floor(from.rows / 2), Math.floor(from.cols / 2)];
    place = [Math.min(from.rows - 1, Math.max(0, start[0] + step[0])), Math.min(from.cols - 1, Math.max(0, start[1] + step[1]))];
    why.classList.add("walking");
    showCell();
  });

  async function showClaim() {
    if (!upsampling || !active) {
      heat.removeAttribute("href");
      claim.setAttribute("d", "");
      claimWords.replaceChildren();
      return;
    }
    const term = active;
    let claimed;
    try {
      claimed = await api.get(`/api/images/${encodeURIComponent(id)}/upsampling/${term.prototype}`);
    } catch (error) {
      if (active !== term || !upsampling) return;
      heat.removeAttribute("href");
      claim.setAttribute("d", "");
      show(claimWords, failure(error, showClaim));
      return;
    }
    if (active !== term || !upsampling) return;
    heat.setAttribute("href", api.picture(`/api/images/${encodeURIComponent(id)}/heat/${term.prototype}`));
    claim.setAttribute("d", claimed.region ? claimed.region.path : "");
    claimWords.textContent = `Upsampling would have claimed the dashed box for term ${term.number} (${rowsAndColumns(claimed.region && claimed.region.hull)}). The cell really sees ${rowsAndColumns(term.region && term.region.hull)}. Prove it, and see which claim holds.`;
  }
  const box = h("input", { type: "checkbox", id: `upsampling-${switches++}`, onchange: () => {
    upsampling = box.checked;
    why.classList.toggle("upsampling", upsampling);
    showClaim();
  } });
  const figure = h("figure", null, stage, h("figcaption", null, words,
    active ? h("p", { class: "tools switch" }, box, h("label", { for: box.id }, " Show what upsampling would have claimed")) : null, claimWords));
  return {
    figure,
    activate(term) {
      if (active === term) return;
      active = term;
      showClaim();
    },
  };
}
