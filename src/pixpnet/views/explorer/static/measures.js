// Measures: the run's tables and curves, and what was not measured yet with the command for it.

import { lineChart } from "./charts.js";
import { command, h, loading, show } from "./dom.js";
import { sortable } from "./table.js";

export async function render(root, params, api) {
  document.title = `Measures · ${api.about.run}`;
  show(root, h("h1", null, "How good is it?"), loading("Reading what the run kept"));
  const facts = await api.get("/api/measures");
  show(root, h("h1", null, "How good is it?"),
    facts.problems.map((problem) => h("p", { class: "note" }, problem)),
    facts.headline.length ? h("dl", { class: "headline" }, facts.headline.map((item) => h("div", null, h("dt", null, item.name), h("dd", null, item.value), h("dd", { class: "more" }, item.more)))) : null,
    accuracy(facts), curves(facts), certainty(facts), doubts(facts), measured(facts), classes(facts), openings(facts), missing(facts));
}

// words: which columns beside the first hold words, not numbers.
function table(label, heads, rows, words = []) {
  const kind = (index) => (index && !words.includes(index) ? "number" : null);
  return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": label }, h("table", null,
    h("thead", null, h("tr", null, heads.map((name, index) => h("th", { scope: "col", class: kind(index) }, name)))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, index) => h(index ? "td" : "th", index ? { class: kind(index) } : { scope: "row" }, cell)))))));
}

function accuracy(facts) {
  if (!facts.accuracy.length) return null;
  const words = (part) => (part ? [part.accuracy, h("br"), h("span", { class: "muted small" }, part.interval)] : "–");
  return h("section", { "aria-labelledby": "accuracy" }, h("h2", { id: "accuracy" }, "Accuracy"),
    table("Accuracy", ["split", "before replacement", "as it is", "images", "cross-entropy"],
      facts.accuracy.map((row) => [row.split, words(row.before), words(row.after), row.after.images, row.after.loss])));
}

function curves(facts) {
  if (!facts.curves.length) return null;
  return h("section", { "aria-labelledby": "curves" }, h("h2", { id: "curves" }, "Training"), h("div", { class: "plots" },
    facts.curves.map((curve) => lineChart({ title: curve.title, xName: "epoch", series: curve.series, share: curve.title === "Accuracy", mark: facts.kept_epoch, markName: `kept: epoch ${facts.kept_epoch}` }))));
}

function certainty(facts) {
  const known = facts.certainty;
  return h("section", { "aria-labelledby": "certainty" }, h("h2", { id: "certainty" }, "When it says 90 %, is it right in 90 of 100 cases?"),
    h("p", null, facts.calibrated),
    known ? h("ul", null, h("li", null, `Stated probabilities are off by ${known.after} on average on ${known.split} images; without calibration by ${known.before}.`),
      h("li", null, `Prediction sets: ${known.sets}.`), known.warned ? h("li", null, `${facts.limits} It warned of ${known.warned} of ${known.split} images, which it should know (meant: 5 %).`) : null) : null,
    known && known.flattered ? h("p", { class: "note" }, known.flattered) : null);
}

function doubts(facts) {
  if (!facts.doubts.length) return null;
  return h("section", { "aria-labelledby": "doubts" }, h("h2", { id: "doubts" }, "Does it know what it does not know?"),
    table("Doubt", ["against", "sign of doubt", "pairs in the right order (AUROC)", "others that pass where 95 % of known images do"],
      facts.doubts.flatMap((doubt) => doubt.signs.map((sign, index) => [index ? "" : `${doubt.against}, ${doubt.images} images${doubt.warned ? `, ${doubt.warned} warned of` : ""}`, sign.sign, sign.auroc, sign.passing])), [1]));
}

function measured(facts) {
  const known = facts.table;
  if (!known) return null;
  return h("section", { "aria-labelledby": "table2" }, h("h2", { id: "table2" }, "Quality of explanations"),
    known.stale ? h("p", { class: "note" }, "Another model of this run was measured: the figures are not this one's.") : null,
    h("p", null, `The paper's Table 2, on ${known.split} images${known.samples ? ` (${known.samples} samples for the relevance ordering test)` : ", without the relevance ordering test"}.`),
    table("Quality of explanations", ["mapping", "consistency", "stability", "AUSC", "%2R", "undefined"],
      known.rows.map((row) => [row.mapping, row.consistency, row.stability, row.area, row.recovery, row.undefined])),
    known.curves.length ? lineChart({ title: "Relevance ordering", xName: "share of pixels that are back", series: known.curves, share: true, dots: false }) : null);
}

function classes(facts) {
  if (!facts.classes.length) return null;
  const columns = [
    { name: "Class", value: (line) => line.name, cell: (line) => h("a", { href: `#/ask?split=val&sort=mistakes&label=${line.label}` }, line.name) },
    { name: "Accuracy", number: true, value: (line) => (line.share === null ? 2 : line.share), cell: (line) => line.accuracy },
  ];
  return h("section", { "aria-labelledby": "classes" }, h("h2", { id: "classes" }, "By class"), h("div", { class: "halves" },
    h("div", null, h("h3", null, `Accuracy on ${facts.split} images`), sortable("The worst first", columns, facts.classes, 1)),
    h("div", null, h("h3", null, "Taken for another class"), facts.confused.length ? table("Mistakes", ["class", "taken for", "images"], facts.confused.map((pair) => [pair.truth, pair.answer, pair.images]), [1])
      : h("p", null, "No image was."))));
}

function openings(facts) {
  return h("section", { "aria-labelledby": "openings" }, h("h2", { id: "openings" }, "The test split"),
    facts.openings.length ? [h("p", null, `It was opened ${facts.openings.length === 1 ? "once" : `${facts.openings.length} times`}:`),
      h("ul", null, facts.openings.map((line) => h("li", null, `${line.time.replace("T", " ").slice(0, 16)}: ${line.reason} (${line.images} images)`)))] : h("p", null, "It was never opened."));
}

function missing(facts) {
  return h("section", { "aria-labelledby": "missing" }, h("h2", { id: "missing" }, "Not here yet"),
    facts.missing.map((item) => h("div", null, h("h3", null, item.name), h("p", { class: "muted" }, `${item.why}.`), item.command ? command(item.command) : null)));
}
