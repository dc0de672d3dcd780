// One answer with its evidence: this part looks like that part, and how that adds up to the answer.

import { button, failure, h, loading, show } from "./dom.js";
import { viewer } from "./viewer.js";
import { partShot, shot, styleOf } from "./regions.js";
import { giveAll, watchWindow } from "./intake.js";
import { remember } from "./asked.js";
import { proofDialog, proveAll } from "./proofs.js";

export async function render(root, params, api) {
  const id = params.path[1] || "";
  const classes = params.query.get("classes") || "";
  show(root, loading("Asking"));
  const order = new URLSearchParams(["sort", "label"].filter((name) => params.query.get(name)).map((name) => [name, params.query.get(name)]));
  const query = new URLSearchParams([...order, ...(classes ? [["classes", classes]] : [])]);
  const answer = await api.get(`/api/images/${encodeURIComponent(id)}?${query}`);
  document.title = `${answer.answer.answer} · ${answer.image.name}`;
  const stop = watchWindow((files) => giveAll(api, files.slice(0, 1), (line, error) => {
    if (error) { root.prepend(failure(error)); return; }
    remember(line);
    location.hash = `#/image/${line.id}`;
  }));
  const page = { answer, api, classes, order, url: api.picture(`/api/images/${encodeURIComponent(id)}/picture`) };
  show(root, head(page), page.answer.classes.map((explained, index) => classSection(page, explained, index)), ranking(page));
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.target.matches("input, select, textarea") || document.querySelector("dialog[open]")) return;
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const neighbour = rel && root.querySelector(`a[rel=${rel}]`);
    if (neighbour) neighbour.click();
  };
  document.addEventListener("keydown", onKey);
  return () => {
    document.removeEventListener("keydown", onKey);
    stop();
  };
}

// Back to the list that it is in, and on to the images before and behind it there.
function neighbours({ answer, order }) {
  const known = answer.neighbours;
  const listed = new URLSearchParams([...order, ...(answer.image.id.startsWith("train-") ? [["split", "train"]] : [])]);
  const to = (image, rel, words) => (image ? h("a", { href: `#/image/${image}${String(order) ? `?${order}` : ""}`, rel }, words) : null);
  return h("p", { class: "small proto-nav" }, h("a", { href: `#/ask${String(listed) ? `?${listed}` : ""}` }, "all images"),
    known ? [to(known.previous, "prev", "← previous"), h("span", { class: "muted" }, `${known.number} of ${known.of}`), to(known.next, "next", "next →")] : null);
}

function verdict(answer) {
  if (answer.answer.right === null) return null;
  return answer.answer.right ? [h("b", { class: "good" }, "✓ right"), " · "]
    : [h("b", { class: "bad" }, `✗ wrong, it is ${answer.image.truth}`), " · "];
}

function head(page) {
  const { answer, api, classes } = page;
  const proofs = h("div", { class: "proving" });
  const image = answer.image;
  const given = image.source_height === image.height && image.source_width === image.width ? ""
    : `, ${image.source_width} × ${image.source_height}, seen as ${image.width} × ${image.height}`;
  return h("header", { class: "answer" },
    neighbours(page),
    h("h1", null, answer.answer.answer),
    h("p", { class: "lead" }, verdict(answer), `${answer.share} · ${image.name} (${image.where}${given})`),
    answer.doubt ? h("p", { class: "note" }, h("b", null, answer.doubt)) : null,
    classSet(answer),
    h("p", { class: "tools" }, button("Prove every claim", (event) => proveAll(event.target, proofs, answer, classes, api))), proofs,
    answer.notes.map((note) => h("p", { class: "muted" }, note)));
}

function classSet(answer) {
  const set = answer.set;
  if (!set) return h("p", null, answer.calibrated);
  if (!set.enough) return h("p", null, `For a prediction set of ${set.coverage} coverage there were too few images (${set.images}).`);
  const names = set.classes.map((item) => `${item.name} (${item.probability})`).join(", ");
  return h("p", { title: answer.calibrated }, h("b", null, `Prediction set, ${set.coverage} coverage: `),
    set.classes.length ? `${names}.` : "empty: no class is as probable as the true one is in nearly all known images.");
}

function classSection(page, explained, index) {
  const { answer, api } = page;
  const other = index > 0 ? answer.why_not[index - 1] : null;
  const why = h("div", { class: "why" });
  const look = viewer(page, explained, why);
  const form = explained.path ? "From the root on: the nearest part of the image, the part that was looked for, where that comes from, and whether it was found:"
    : "This part of the image, the part it looks like, where that comes from, and what the likeness adds:";
  why.append(look.figure, h("div", null, h("p", { class: "legend small muted" }, form),
    h("ol", { class: `terms${explained.path ? " turns" : ""}` }, explained.terms.map((term) => termItem(page, explained, term, look))),
    sum(explained)));
  const truth = index > 0 && explained.name === answer.image.truth ? " (the right answer)" : "";
  const title = index === 0 ? `Why ${explained.name}?` : `Why not ${explained.name}?${truth}`;
  return h("section", { "aria-labelledby": `class-${explained.label}` }, h("h2", { id: `class-${explained.label}` }, title),
    other ? h("p", null, other.words) : null, why, other && other.pairs.length ? contrast(answer.classes[0], explained, other) : null);
}

function sum(explained) {
  if (explained.path) return h("p", { class: "sum" }, h("span", null, explained.path), h("strong", null, explained.probability));
  const rest = explained.rest ? (explained.left ? `, and ${explained.left} more, sum ${explained.rest}` : `, rest ${explained.rest}`) : "";
  return h("p", { class: "sum" }, h("span", null, `${explained.shown} shown${rest}${explained.constant ? `, and ${explained.constant} for every image` : ""}`),
    h("strong", null, `logit ${explained.logit}`));
}

function termItem(page, explained, term, look) {
  const { answer, api } = page;
  const { width, height } = answer.image;
  const image = { url: page.url, width, height };
  const source = { url: api.picture(`/api/prototypes/${term.prototype}/picture`), width, height };
  const origin = term.origin && term.origin.region;
  const mark = origin && !term.everything ? [{ path: origin.path, group: term.group }] : [];
  const badge = h("span", { class: "badge", "data-prototype": term.prototype, "data-label": explained.label });
  const tag = h("button", { type: "button", class: `tag f${styleOf(term.group)}`, "aria-pressed": "false", "aria-label": `Region of term ${term.number}: show it on the image` }, term.number);
  tag.addEventListener("click", () => {
    const pin = tag.getAttribute("aria-pressed") !== "true";
    for (const one of tag.closest(".why").querySelectorAll("button.tag")) one.setAttribute("aria-pressed", String(pin && one === tag));
  });
  const item = h("li", { class: `term t${term.group}${term.large ? " large" : ""}` }, tag,
    partShot(image, term.region, `This part: the region of term ${term.number}`),
    origin ? partShot(source, origin, `That part: what prototype ${term.prototype} saw`) : h("div", { class: "nothing" }, "not a patch"),
    shot({ ...source, label: `Prototype ${term.prototype} in ${term.origin ? `the training image ${term.origin.image}` : "no training image"}`, marks: mark, part: true, source: true }),
    h("div", { class: "says" }, h("span", { class: "adds" }, term.adds), term.product ? h("span", null, `= ${term.product}`) : null, badge,
      h("span", { class: "muted" }, h("a", { href: `#/prototype/${term.prototype}` }, term.says)), term.parts ? h("span", null, term.parts) : null,
      h("span", { class: "muted" }, `sees ${term.sees} of the image`), term.also ? h("span", { class: "muted" }, term.also) : null,
      term.grid_words ? h("span", { class: "muted" }, term.grid_words) : null,
      term.origin ? h("span", { class: "muted from", title: term.origin.image }, term.origin.image) : null,
      button("Prove it", () => proofDialog(page, explained, term, badge), { class: "plain small", "aria-label": `Prove term ${term.number}` })));
  for (const event of ["mouseenter", "focusin", "click"]) item.addEventListener(event, () => look.activate(term));
  return item;
}

function contrast(predicted, other, against) {
  return h("details", null, h("summary", null, "Term against term, strongest first"),
    h("div", { class: "table", tabindex: "0", role: "group", "aria-label": `${predicted.name} against ${other.name}` }, h("table", null,
      h("thead", null, h("tr", null, ["", predicted.name, other.name, "ahead by"].map((name, index) => h(index ? "th" : "td", index ? { scope: "col", class: "number" } : null, name)))),
      h("tbody", null, against.pairs.map((pair, index) => h("tr", null, h("th", { scope: "row", class: "number" }, index + 1),
        [pair.predicted, pair.other].map((side) => h("td", { class: "number" }, side ? `${side.adds} (prototype ${side.prototype})` : "–")),
        h("td", { class: "number" }, pair.difference))),
      h("tr", null, h("th", { scope: "row", class: "number" }, "rest"), h("td"), h("td"), h("td", { class: "number" }, against.rest)))))) ;
}

function ranking({ answer, classes, order }) {
  const explained = new Set(answer.classes.map((item) => item.label));
  const asked = (label) => [...new Set([...classes.split(",").filter(Boolean), String(label)])].slice(-4).join(",");
  const to = (label) => `#/image/${answer.image.id}?${[String(order), `classes=${asked(label)}`].filter(Boolean).join("&")}`;
  return h("section", { "aria-labelledby": "ranking-heading" }, h("h2", { id: "ranking-heading" }, "All classes"),
    h("p", { class: "muted" }, `${answer.calibrated} Any class can be explained beside the answer.`),
    h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "All classes" }, h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "class"), h("th", { scope: "col", class: "number" }, "logit"), h("th", { scope: "col", class: "number" }, "probability"), h("td"))),
      h("tbody", null, answer.ranking.map((item) => h("tr", null, h("th", { scope: "row" }, item.name), h("td", { class: "number" }, item.logit), h("td", { class: "number" }, item.probability),
        h("td", null, explained.has(item.label) ? h("span", { class: "muted" }, "shown above")
          : h("a", { href: to(item.label) }, "why not?"))))))));
}
