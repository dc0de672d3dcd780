// All prototypes: each exactly the pixels that its cell saw. Filters and orders are applied here; only what is in view is drawn.

import { button, failure, h, loading, say, show } from "./dom.js";
import { runJob } from "./jobs.js";

const FILTERS = {
  all: ["all", () => true],
  suspicious: ["suspicious", (line) => line.suspicion >= 0.5],
  background: ["on background", (line) => line.background],
  misleading: ["misleading", (line) => line.misled > 0],
  others: ["near other classes", (line) => line.others],
  duplicate: ["duplicates", (line) => line.duplicate],
  never: ["never decide", (line) => line.never],
  verdict: ["with a verdict", (line) => hasVerdict(line)],
  unseen: ["without a verdict", (line) => !hasVerdict(line)],
};
// name in the address: [words, value to sort by, largest first, needs a review]
const SORTS = {
  suspicion: ["suspicion", (line) => line.suspicion, true, true],
  number: ["number", (line) => line.number, false, false],
  class: ["class", (line) => line.class || "", false, false],
  purity: ["purity, lowest first", (line) => (line.purity === null ? 2 : line.purity), false, true],
  right: ["adds to right answers", (line) => (line.right === null ? -Infinity : line.right), true, true],
  wrong: ["adds to wrong answers", (line) => (line.wrong === null ? -Infinity : line.wrong), true, true],
  misled: ["wrong answers misled", (line) => line.misled, true, true],
};
const BUFFER = 3; // rows beyond the window

function hasVerdict(line) {
  return Boolean(line.action || line.name || line.forbidden || line.remembered);
}

export function verdictWords(line) {
  const words = [];
  if (line.action) words.push({ keep: "kept", remove: "to be removed", require: `required, at least ${line.weight}` }[line.action]);
  if (line.forbidden) words.push("forbidden");
  if (line.remembered) words.push("remembered");
  return words.join(", ");
}

export async function render(root, params, api) {
  document.title = `Prototypes · ${api.about.run}`;
  show(root, loading("Looking at the prototypes"));
  const all = await api.get("/api/prototypes");
  const chosen = {
    filter: FILTERS[params.query.get("filter")] ? params.query.get("filter") : "all",
    sort: SORTS[params.query.get("sort")] ? params.query.get("sort") : all.reviewed ? "suspicion" : "number",
    label: params.query.get("label") || "",
    text: params.query.get("text") || "",
  };
  if (!all.reviewed && SORTS[chosen.sort][3]) chosen.sort = "number";
  const words = h("p", { class: "muted", role: "status" });
  const grid = virtualGrid((line) => card(line, api));

  function order() {
    const [, value, down] = SORTS[chosen.sort];
    const text = chosen.text.toLowerCase();
    const lines = all.prototypes.filter((line) => (FILTERS[chosen.filter][1](line))
      && (!chosen.label || line.classes.includes(Number(chosen.label)) || line.label === Number(chosen.label))
      && (!text || `${line.number} ${line.name} ${line.class} ${(line.parts || []).join(" ")}`.toLowerCase().includes(text)));
    return lines.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      const less = typeof a === "string" ? a.localeCompare(b) : a === b ? 0 : a < b ? -1 : 1;
      return (down ? -less : less) || one.number - other.number;
    });
  }

  function update() {
    const lines = order();
    words.textContent = lines.length ? `${lines.length} of ${all.prototypes.length} prototypes.` : "No prototype is like that.";
    grid.set(lines);
    const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
    if (root.isConnected) history.replaceState(null, "", `#/prototypes?${query}`);
  }

  const select = (label, name, choices) => {
    const field = h("select", { id: `proto-${name}`, onchange: () => { chosen[name] = field.value; update(); } },
      choices.map(([value, text]) => h("option", { value, selected: value === chosen[name] }, text)));
    return h("span", null, h("label", { for: `proto-${name}` }, `${label} `), field);
  };
  const search = h("input", { id: "proto-text", type: "search", value: chosen.text, placeholder: "number, class, name", oninput: () => { chosen.text = search.value.trim(); update(); } });
  const known = (entries) => entries.filter(([, , , reviewed]) => all.reviewed || !reviewed);
  show(root, h("h1", null, "Prototypes"),
    h("p", { class: "lead" }, api.about.patches ? "Each picture is exactly what the cell of a prototype saw in its training image, and nothing else." : "The prototypes of this network are no patches of training images, so there are no pictures of them."),
    all.reviewed ? reviewWords(all) : reviewSection(api),
    h("p", { class: "tools" },
      select("Show", "filter", Object.entries(FILTERS).filter(([name]) => all.reviewed || ["all", "verdict", "unseen"].includes(name)).map(([name, [text]]) => [name, text])),
      select("Sort by", "sort", known(Object.entries(SORTS).map(([name, [text, , , reviewed]]) => [name, text, null, reviewed]))),
      select("Class", "label", [["", "all"], ...api.about.classes.map((name, label) => [String(label), name])]),
      h("span", null, h("label", { for: "proto-text" }, "Find "), search)),
    words, grid.element);
  grid.start();
  update();
  return () => grid.stop();
}

function reviewWords(all) {
  const by = { masks: "the masks of objects", keypoints: "annotated parts", box: "the boxes of objects" }[all.known_by];
  return h("p", { class: "muted" }, `Reviewed on ${all.images} validation images, of which ${all.wrong} are answered wrongly. `,
    by ? `What is background is known by ${by}.` : "What is background is not known: the data set has no masks, boxes or parts.");
}

function reviewSection(api) {
  const work = h("div");
  const begin = button("Review every prototype", async () => {
    begin.disabled = true;
    try {
      await runJob(work, api, await api.post("/api/review", {}));
      say("Reviewed");
      window.dispatchEvent(new HashChangeEvent("hashchange"));
    } catch (error) {
      begin.disabled = false;
      show(work, failure(error));
    }
  }, { class: "plain main" });
  return h("div", { class: "claim" }, h("p", null, "Which of them are on background, mislead, or say the same? Nobody has looked yet: a review goes once through the training and validation images."), begin, work);
}

function card(line, api) {
  const verdict = verdictWords(line);
  const flags = [line.background ? "background" : "", line.misled ? `misled ${line.misled}` : "", line.duplicate ? "duplicate" : ""].filter(Boolean);
  return h("a", { class: `proto${line.action === "remove" || line.counts === false ? " gone" : ""}`, href: `#/prototype/${line.number}`, "data-number": line.number },
    api.about.patches ? h("img", { src: api.picture(`/api/prototypes/${line.number}/crop`), alt: "", width: 160, height: 160, decoding: "async" }) : h("span", { class: "nothing" }, "not a patch"),
    h("span", { class: "proto-title" }, h("b", null, line.name || `Prototype ${line.number}`)),
    h("span", { class: "muted small" }, line.name ? `${line.number}, ${line.class}` : line.class || "no class"),
    flags.length ? h("span", { class: "bad small" }, flags.join(", ")) : null,
    verdict ? h("span", { class: "small proto-verdict" }, verdict) : null);
}

// A grid of any number of cards of one size, of which only those in view are in the page.
function virtualGrid(make) {
  const inner = h("ul", { class: "protos", "aria-label": "Prototypes" });
  const drawn = new Map();
  let lines = [];
  let size = { columns: 1, width: 160, height: 260 };
  let waiting = false;

  function measure() {
    const style = getComputedStyle(inner);
    const least = parseFloat(style.getPropertyValue("--card")) || 152;
    const whole = inner.clientWidth || 800;
    const columns = Math.max(2, Math.floor(whole / least));
    const width = whole / columns;
    size = { columns, width, height: width + 84 };
  }

  function draw() {
    waiting = false;
    const top = -inner.getBoundingClientRect().top;
    const rows = Math.ceil(lines.length / size.columns);
    const first = Math.max(0, Math.floor(top / size.height) - BUFFER);
    const last = Math.min(rows, Math.ceil((top + window.innerHeight) / size.height) + BUFFER);
    const wanted = new Set();
    for (let index = first * size.columns; index < Math.min(lines.length, last * size.columns); index += 1) wanted.add(index);
    for (const [index, item] of drawn) {
      if (!wanted.has(index)) { item.remove(); drawn.delete(index); }
    }
    for (const index of wanted) {
      if (drawn.has(index)) continue;
      const item = h("li", { "aria-setsize": lines.length, "aria-posinset": index + 1 }, make(lines[index]));
      place(item, index);
      drawn.set(index, item);
    }
    // In the order of their numbers, for the Tab key and for readers; those that are there are not moved, which would cost the focus.
    let behind = null;
    for (const index of [...drawn.keys()].sort((a, b) => b - a)) {
      const item = drawn.get(index);
      if (!item.isConnected) inner.insertBefore(item, behind);
      behind = item;
    }
  }

  function place(item, index) {
    item.style.width = `${size.width}px`;
    item.style.height = `${size.height}px`;
    item.style.transform = `translate(${(index % size.columns) * size.width}px, ${Math.floor(index / size.columns) * size.height}px)`;
  }

  function again() {
    measure();
    inner.style.height = `${Math.ceil(lines.length / size.columns) * size.height}px`;
    inner.replaceChildren();
    drawn.clear();
    draw();
  }

  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };
  const onKey = (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: size.columns, ArrowUp: -size.columns }[event.key];
    const card = event.target.closest("a.proto");
    if (!steps || !card) return;
    const from = lines.findIndex((line) => String(line.number) === card.dataset.number);
    const to = from + steps;
    if (to < 0 || to >= lines.length) return;
    event.preventDefault();
    const y = inner.getBoundingClientRect().top + window.scrollY + Math.floor(to / size.columns) * size.height;
    if (y < window.scrollY + 80 || y + size.height > window.scrollY + window.innerHeight) window.scrollTo(0, y - 100);
    draw();
    const item = drawn.get(to);
    if (item) item.querySelector("a").focus({ preventScroll: true });
  };
  const resized = new ResizeObserver(() => again());

  return {
    element: inner,
    set(next) { lines = next; again(); },
    start() {
      window.addEventListener("scroll", soon, { passive: true });
      inner.addEventListener("keydown", onKey);
      resized.observe(document.getElementById("main"));
    },
    stop() {
      window.removeEventListener("scroll", soon);
      resized.disconnect();
    },
  };
}
