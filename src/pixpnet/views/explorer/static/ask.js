// Ask: pictures from a person, or images of the data set; several at once make a table, sorted by doubt.

import { asked, forgetAll, remember } from "./asked.js";
import { button, failure, h, loading, say, show } from "./dom.js";
import { cameraButton, chooser, giveAll, watchWindow } from "./intake.js";
import { sortable } from "./table.js";

const PAGE = 48;
// How often the page asks whether the data set is open, in milliseconds.
const OPENING = 700;

// Doubted answers first, then those of least probability.
const doubtOf = (line) => (line.doubted ? 0 : 1) + line.probability;

export function render(root, params, api) {
  document.title = `Ask · ${api.about.run}`;
  const problems = h("div", { role: "alert" });
  const table = h("div");
  const working = h("div");

  async function take(files) {
    show(problems);
    let given = 0;
    let last = null;
    show(working, loading(files.length === 1 ? `Asking about ${files[0].name}` : `Asking about ${files.length} pictures`));
    await giveAll(api, files, (line, error, name) => {
      given += 1;
      if (error) {
        problems.append(h("p", { class: "note" }, h("b", null, error.message)));
        return;
      }
      last = line;
      remember(line);
      if (files.length > 1) {
        show(working, loading(`Asked about ${given} of ${files.length}: ${name}`));
        showTable();
      }
    });
    show(working);
    say(`${given} asked about`);
    if (files.length === 1 && last) location.hash = `#/image/${last.id}`;
    else showTable();
  }

  function showTable() {
    const lines = asked();
    show(table, lines.length ? answersTable(lines, api, () => { forgetAll(); showTable(); }) : null);
  }

  const stop = watchWindow(take);
  const data = h("section", { "aria-labelledby": "data-heading" });
  show(root,
    h("h1", null, "What does it see in this picture?"),
    h("p", { class: "lead" }, `${api.about.model} tells ${api.about.classes.length} classes of ${api.about.data} apart by ${api.about.prototypes} prototypes. A cell sees ${api.about.mean_field} of the image.`),
    h("div", { class: "drop" }, h("p", null, h("b", null, "Drop pictures here"), " or paste one. They stay on this computer."),
      h("p", { class: "tools" }, chooser(take), cameraButton(take))),
    working, problems, table, data);
  showTable();
  const end = dataImages(data, params, api);
  return () => { stop(); end(); };
}

function link(line, child, query = "") {
  return h("a", { href: `#/image/${line.id}${query}` }, child);
}

function answersTable(lines, api, clear) {
  const thumbnail = (line) => link(line, h("img", { src: api.picture(`/api/images/${line.id}/thumbnail`), alt: `Open ${line.name}`, loading: "lazy", class: "thumb" }));
  const columns = [
    { name: "Picture", cell: thumbnail },
    { name: "Name", value: (line) => line.name, cell: (line) => link(line, line.name) },
    { name: "Answer", value: (line) => line.answer, cell: (line) => h("b", null, line.answer) },
    { name: "Probability", number: true, value: (line) => line.probability, cell: (line) => line.probability_words },
    { name: "Runner-up", value: (line) => line.runner_up, cell: (line) => `${line.runner_up}, ${line.runner_up_words}` },
    { name: "Largest logit", number: true, value: (line) => line.logit, cell: (line) => line.logit_words },
    { name: "Doubt", value: doubtOf, cell: (line) => (line.doubted ? h("b", { class: "bad" }, `looks like nothing it knows: ${line.rare}`) : doubtWords(line)) },
  ];
  return h("section", { "aria-labelledby": "asked-heading" }, h("h2", { id: "asked-heading" }, "Asked about"),
    sortable(`${lines.length} ${lines.length === 1 ? "picture" : "pictures"}, the most doubtful first`, columns, lines, columns.length - 1),
    h("p", null, button("Forget these", clear)));
}

function doubtWords(line) {
  if (line.in_set === null) return "not calibrated";
  if (line.in_set === 1) return "one class in its 95 % set";
  return line.in_set === 0 ? "no class in its 95 % set" : `${line.in_set} classes in its 95 % set`;
}

function dataImages(section, params, api) {
  const chosen = {
    split: params.query.get("split") === "train" ? "train" : "val",
    sort: ["doubt", "mistakes", "name"].includes(params.query.get("sort")) ? params.query.get("sort") : "mistakes",
    label: params.query.get("label") || "",
  };
  let start = 0;
  let gone = false;
  let turn = 0;
  const list = h("ul", { class: "wall" });
  const words = h("p", { class: "muted", role: "status" });
  const more = button("Show more", () => load(false));
  more.hidden = true;

  const select = (label, name, choices) => {
    const field = h("select", { id: `data-${name}`, onchange: () => {
      chosen[name] = field.value;
      const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
      history.replaceState(null, "", `#/ask?${query}`);
      load(true);
    } }, choices.map(([value, text]) => h("option", { value, selected: value === chosen[name] }, text)));
    return h("span", null, h("label", { for: `data-${name}` }, `${label} `), field);
  };

  async function load(anew) {
    const mine = ++turn;
    if (anew) start = 0;
    try {
      const query = new URLSearchParams({ ...chosen, start, count: PAGE });
      const page = await api.get(`/api/images?${query}`);
      if (gone || mine !== turn) return;
      if (page.state === "opening") {
        words.textContent = "Opening the data set …";
        setTimeout(() => { if (!gone && mine === turn) load(anew); }, OPENING);
        return;
      }
      if (page.state === "missing") {
        words.textContent = `The images of this run are not at hand (${page.why}). Pictures of your own can be asked about all the same.`;
        return;
      }
      start += page.images.length;
      words.textContent = page.total === 0 ? "There are no such images."
        : `${start} of ${page.total} ${page.split} images.${page.answered || chosen.split === "val" ? "" : " Answers to training images were not kept, so they are not sorted by doubt."}`;
      // Which list it is in, so that the page of an image knows its neighbours.
      const order = new URLSearchParams(Object.entries(chosen).filter(([name, value]) => name !== "split" && value));
      const items = page.images.map((line) => h("li", null, link(line, [
        h("img", { src: api.picture(`/api/images/${line.id}/thumbnail`), alt: "", loading: "lazy", width: 160, height: 160 }),
        h("span", { class: "truth" }, line.truth),
        line.answer === null ? null : line.right ? h("span", { class: "good small" }, `✓ ${line.probability_words}`)
          : h("span", { class: "bad small" }, `✗ ${line.answer}, ${line.probability_words}`),
        line.doubted ? h("span", { class: "bad small" }, `looks like nothing it knows: ${line.rare}`) : null], `?${order}`)));
      if (anew) list.replaceChildren(...items);
      else list.append(...items);
      more.hidden = start >= page.total;
    } catch (error) {
      if (!gone) show(words, failure(error, () => load(anew)));
    }
  }

  show(section, h("h2", { id: "data-heading" }, "Or take one of the data set"),
    h("p", { class: "tools" },
      select("Show", "split", [["val", "validation images"], ["train", "training images"]]),
      select("Sort by", "sort", [["mistakes", "mistakes first"], ["doubt", "doubt"], ["name", "name"]]),
      select("Class", "label", [["", "all"], ...api.about.classes.map((name, label) => [String(label), name])])),
    words, list, h("p", null, more),
    h("p", { class: "muted small" }, "Test images stay closed: a model that is looked at, doubted and mended with them has no test any more."));
  words.textContent = "Loading …";
  load(true);
  return () => { gone = true; };
}
