// Mend: what people said of prototypes, what removing them does, an edited run, and retraining with feedback.

import { button, command, failure, h, loading, show } from "./dom.js";
import { runJob } from "./jobs.js";
import { stale, undoVerdict } from "./saying.js";

const WORDS = { keep: "keep", remove: "remove", require: "require", forbid: "forbid its patch", remember: "remember its patch", name: "name" };

export async function render(root, params, api) {
  document.title = `Mend · ${api.about.run}`;
  const state = { api, serial: 0 };
  const said = h("section", { "aria-labelledby": "said-heading" });
  const edit = h("section", { "aria-labelledby": "edit-heading" });
  const train = h("section", { "aria-labelledby": "train-heading" });
  const take = (answer) => {
    state.serial = answer.serial;
    show(said, verdictsSection(answer, state, take));
    if (answer.stale) said.prepend(stale(answer.stale));
    show(train, retraining(answer, api, take));
    previewSection(edit, answer, api, take);
  };
  show(root, h("h1", null, "Mend the model"),
    h("p", { class: "lead" }, "Say what you think of prototypes on their pages. Here is what that does to the answers, before anything is changed."),
    edit, train, said);
  take(await api.get("/api/verdicts"));
  const marked = params.path[1] && document.getElementById(`verdict-${params.path[1]}`);
  if (marked) { marked.classList.add("marked"); marked.scrollIntoView({ block: "center" }); }
  return null;
}

function link(number, api) {
  return h("a", { href: `#/prototype/${number}` }, api.about.patches ? h("img", { class: "thumb tiny", src: api.picture(`/api/prototypes/${number}/crop`), alt: "", loading: "lazy" }) : null, h("span", null, number));
}

function verdictsSection(answer, state, take) {
  const { api } = state;
  const heading = h("h2", { id: "said-heading" }, "What was said");
  if (!answer.lines.length) {
    return [heading, h("p", { class: "muted" }, "Nothing yet. Begin with the ", h("a", { href: "#/prototypes?sort=suspicion" }, "most suspicious prototypes"), ".")];
  }
  const problems = h("div", { role: "alert" });
  const undo = (line) => button("Undo", async () => {
    try {
      const answer = await undoVerdict(api, state, line.serial);
      if (answer) take(answer);
    } catch (error) {
      show(problems, failure(error));
    }
  }, { "aria-label": `Undo verdict ${line.serial}` });
  return [heading, problems, h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Verdicts" }, h("table", null,
    h("caption", null, `${answer.file} in the run's folder, newest first`),
    h("thead", null, h("tr", null, ["line", "prototype", "verdict", "when", ""].map((name) => h(name ? "th" : "td", name ? { scope: "col" } : null, name)))),
    h("tbody", null, answer.lines.map((line) => h("tr", { id: `verdict-${line.serial}`, class: line.undone || line.undoes ? "muted" : null },
      h("td", { class: "number" }, h("a", { href: `#/verdicts/${line.serial}` }, line.serial)), h("td", null, line.prototype === null ? "" : link(line.prototype, api)),
      h("td", null, line.undoes ? `takes back line ${line.undoes}` : [line.undone ? h("s", null, says(line)) : says(line)]),
      h("td", { class: "small" }, new Date(line.time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })), h("td", null, line.undone || line.undoes ? "" : undo(line)))))))];
}

function says(line) {
  if (line.kind === "name") return line.text ? `name: “${line.text}”` : "no name any more";
  return `${WORDS[line.kind]}${line.weight ? `, at least ${line.weight}` : ""}${line.text ? ` (${line.text})` : ""}`;
}

async function previewSection(root, answer, api, take) {
  const heading = h("h2", { id: "edit-heading" }, "Without retraining");
  if (!answer.removed.length && !answer.required.length) {
    show(root, heading, h("p", { class: "muted" }, "No prototype is to be removed or required."));
    return;
  }
  const body = h("div");
  const list = (numbers) => numbers.map((number) => [link(number, api), " "]);
  show(root, heading, h("p", { class: "protolist" }, answer.removed.length ? ["Removed: ", list(answer.removed)] : null, answer.required.length ? [" Required: ", list(answer.required)] : null), body);
  show(body, loading("Working out what that does"));
  try {
    let known = await api.post("/api/edits/preview", {});
    while (known.job) {
      await runJob(body, api, known.job);
      if (!body.isConnected) return; // verdicts have changed meanwhile, and what they do is shown in another place
      known = await api.post("/api/edits/preview", {});
    }
    if (known.preview) show(body, outcomes(known.preview, answer, api, take));
  } catch (error) {
    show(body, failure(error));
  }
}

function outcomes(preview, answer, api, take) {
  const work = h("div");
  return [
    preview.refusals.map((words) => h("p", { class: "note" }, words)),
    h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "What the edit does" }, h("table", null, h("caption", null, `Validation accuracy, ${preview.images} images; now ${preview.before}`),
      h("thead", null, h("tr", null, ["how", "accuracy", "points", "mended", "broken", "changed", ""].map((name, index) => h(name ? "th" : "td", name ? { scope: "col", class: index ? "number" : null } : null, name)))),
      h("tbody", null, preview.outcomes.map((outcome) => h("tr", null, h("th", { scope: "row", class: "way" }, outcome.way, h("span", { class: "muted small" }, outcome.words)),
        h("td", { class: "number" }, h("b", null, outcome.accuracy)), h("td", { class: "number" }, outcome.points), h("td", { class: "number good" }, outcome.mended), h("td", { class: "number bad" }, outcome.broken), h("td", { class: "number" }, outcome.changed_count),
        h("td", null, button(outcome.allowed ? "Write the edited run" : "Write it all the same", (event) => write(event.target, work, outcome.way, answer, api, take), outcome.recommended ? { class: "plain main" } : {}))))))),
    preview.refit ? h("p", { class: preview.refit.allowed ? "muted" : "note" }, `The closed form estimates that the training loss rises by ${preview.refit.estimated}; it rises by ${preview.refit.true} (at most ${preview.refit.limit} is called feasible${preview.refit.allowed ? "" : ": this edit is not"}). Refitted, nothing removed: ${preview.refit.nothing_removed} right; the difference from now is what refitting does, not the edit.`) : null,
    work,
    preview.outcomes.map((outcome) => outcome.changed.length ? h("details", { open: outcome === preview.outcomes[0] }, h("summary", null, `Changed answers, ${outcome.way}: ${outcome.changed_count}`),
      h("ul", { class: "wall" }, outcome.changed.map((changed) => h("li", null, h("a", { href: `#/image/${changed.id}` }, h("img", { src: api.picture(`/api/images/${changed.id}/thumbnail`), alt: "", loading: "lazy", width: 160, height: 160 }),
        h("span", null, changed.truth), h("span", { class: `small ${changed.mended ? "good" : changed.broken ? "bad" : "muted"}` }, `${changed.before} → ${changed.after}`)))))) : null)];
}

async function write(from, work, way, answer, api, take) {
  from.disabled = true;
  try {
    const job = await api.post("/api/edits", { way, expected: answer.serial });
    if (job.stale) { take(job); return; }
    const written = await runJob(work, api, job);
    show(work, h("div", { class: "claim" }, h("p", null, h("b", null, written.run), " is written: a run of its own, which says what was done to it. To look at it:"), command(written.command)));
  } catch (error) {
    show(work, failure(error));
  }
  from.disabled = false;
}

function retraining(answer, api, take) {
  const heading = h("h2", { id: "train-heading" }, "With retraining");
  if (!answer.forbidden && !answer.remembered) return [heading, h("p", { class: "muted" }, "No patch is forbidden or to be remembered.")];
  const work = h("div");
  const begin = button("Retrain now", async () => {
    begin.disabled = true;
    try {
      const job = await api.post("/api/retrainings", { expected: answer.serial });
      if (job.stale) { take(job); return; }
      const trained = await runJob(work, api, job);
      show(work, h("div", { class: "claim" }, h("p", null, h("b", null, trained.run), ` is trained: ${trained.words}. To look at it:`), command(trained.command)));
    } catch (error) {
      show(work, failure(error));
    }
    begin.disabled = false;
  }, { class: "plain main" });
  return [heading, h("p", null, `${answer.forbidden} ${answer.forbidden === 1 ? "patch is" : "patches are"} forbidden, ${answer.remembered} to be remembered. Training again keeps prototypes away from the ones and draws them to the others; replacement never picks a forbidden patch. It is a new run beside this one, and can be cancelled; from a terminal:`),
    command(answer.retrain), h("p", null, begin), work];
}
