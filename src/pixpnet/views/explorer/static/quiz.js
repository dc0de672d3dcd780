// Quiz: does this look like that, and which of these explanations is right? What is right is told to nobody before the end.

import { button, failure, h, loading, say, show } from "./dom.js";
import { runJob } from "./jobs.js";
import { shot } from "./regions.js";

const NAME = "pixpnet-quiz-person";

export async function render(root, params, api) {
  document.title = `Quiz · ${api.about.run}`;
  const [, quiz, task, index] = params.path;
  if (quiz && task && index) return question(root, api, { quiz, task, index: Number(index), of: Number(params.query.get("of")) || 0, rest: params.query.get("then") || "" });
  await start(root, api);
  return null;
}

async function start(root, api) {
  const work = h("div");
  const person = h("input", { id: "person", maxlength: "40", autocomplete: "off", value: localStorage.getItem(NAME) || "" });
  const seed = h("input", { id: "seed", type: "number", min: "0", max: "99999", value: String(1 + Math.floor(Math.random() * 9999)) });
  const begin = h("button", { type: "submit", class: "plain main" }, "Begin");

  async function draw(event) {
    event.preventDefault();
    localStorage.setItem(NAME, person.value.trim());
    begin.disabled = true;
    try {
      const job = await api.post("/api/quiz", { agreement: 18, distinction: 8, seed: Number(seed.value) || 0 });
      const drawn = await runJob(work, api, job);
      location.hash = `#/quiz/${drawn.quiz}/agreement/0?of=${drawn.agreement}&then=${drawn.distinction}`;
    } catch (error) {
      begin.disabled = false;
      show(work, failure(error));
    }
  }

  const result = h("div");
  show(root, h("h1", null, "Do explanations help you?"),
    h("p", { class: "lead" }, "A blind test after the HIVE study: you see parts and explanations, not the answers."),
    h("ol", null,
      h("li", null, h("b", null, "Agreement. "), "A part of an image beside a training patch: how much alike are they? Some pairs are the model's, from right and from wrong answers; a third are drawn at random."),
      h("li", null, h("b", null, "Distinction. "), "An image with up to four explanations, without names: which of them belongs to the right class?")),
    h("form", { onsubmit: draw },
      h("p", { class: "tools" },
        h("span", null, h("label", { for: "person" }, "Your name, if you like "), person),
        h("span", null, h("label", { for: "seed" }, "Draw number "), seed), begin),
      h("p", { class: "muted small" }, "The same draw number gives everybody the same questions. Validation images only; replies are kept in quiz.jsonl in the run's folder.")),
    work, result);
  show(result, loading("Loading what was replied"));
  try {
    show(result, resultSection(await api.get("/api/quiz/result"), api));
  } catch (error) {
    show(result, failure(error));
  }
}

async function question(root, api, at) {
  const asked = await api.get(`/api/quiz/${at.quiz}/${at.task}/${at.index}`);
  const base = `/api/quiz/${at.quiz}/${at.task}/${at.index}`;
  const image = { url: api.picture(`${base}/image`), width: asked.width, height: asked.height };
  const part = (pair, side, label) => h("img", { class: "quiz-part", src: api.picture(`${base}/${pair}/${side}`), alt: label });
  const problems = h("div", { role: "alert" });
  let replied = false;

  async function reply(value) {
    if (replied) return;
    replied = true;
    try {
      await api.post(base, { person: localStorage.getItem(NAME) || "", value });
    } catch (error) {
      replied = false;
      show(problems, failure(error));
      return;
    }
    next(at);
  }

  const agreement = at.task === "agreement";
  const choices = agreement ? asked.ratings.map(([rating, words]) => ({ value: rating, key: String(rating), words: `${rating} ${words}` }))
    : asked.choices.map((pairs, number) => ({ value: number, key: String(number + 1), words: `Explanation ${number + 1}`, pairs }));
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const chosen = choices.find((choice) => choice.key === event.key);
    if (chosen) { event.preventDefault(); reply(chosen.value); }
  };
  document.addEventListener("keydown", onKey);
  const count = at.of || at.index + 1;
  const head = h("header", { class: "answer" },
    h("p", { class: "small" }, h("a", { href: "#/quiz" }, "← leave the quiz")),
    h("h1", null, agreement ? "Does this look like that?" : "Which explanation is right?"),
    h("p", { class: "muted", role: "status" }, `Question ${at.index + 1} of ${count}. Keys 1 to ${choices.length} reply.`),
    h("progress", { class: "quiz-progress", max: count, value: at.index, "aria-label": "Questions answered" }));
  if (agreement) {
    show(root, head, h("div", { class: "quiz-pair" },
      h("figure", null, part(0, "this", "This part of the image"), h("figcaption", null, "this part of the image")),
      h("figure", null, part(0, "that", "That part of a training image"), h("figcaption", null, "that part of a training image")),
      h("figure", null, shot({ ...image, label: "The image, with the part outlined", marks: [{ path: asked.pair.path, group: 0 }] }), h("figcaption", null, "where the part is"))),
      h("p", null, "How much alike are they?"),
      h("p", { class: "tools" }, choices.map((choice) => button(choice.words, () => reply(choice.value)))), problems);
  } else {
    show(root, head, h("div", { class: "quiz-ask" },
      h("figure", null, shot({ ...image, label: "The image" }), h("figcaption", null, "the image")),
      h("ol", { class: "quiz-choices" }, choices.map((choice) => h("li", null, h("h2", null, choice.words),
        choice.pairs.length ? choice.pairs.map((pair, number) => h("div", { class: "quiz-row" }, part(pair.pair, "this", `Part ${number + 1} of the image`), h("span", { "aria-hidden": "true" }, "≈"), part(pair.pair, "that", `The training patch that part ${number + 1} looks like`)))
          : h("p", { class: "muted" }, "nothing in this image speaks for it"),
        button(`It is ${choice.key}`, () => reply(choice.value), { class: "plain main", "aria-label": `${choice.words} is right` }))))), problems);
  }
  return () => document.removeEventListener("keydown", onKey);
}

function next(at) {
  if (at.index + 1 < at.of) location.hash = `#/quiz/${at.quiz}/${at.task}/${at.index + 1}?of=${at.of}&then=${at.rest}`;
  else if (at.task === "agreement" && Number(at.rest)) location.hash = `#/quiz/${at.quiz}/distinction/0?of=${at.rest}&then=0`;
  else {
    say("That was the last question.");
    location.hash = "#/quiz";
  }
}

// A share or rating as a bar with its interval, drawn in a box of 100 x 10.
function bar(value, low, high, from, to, mark) {
  const place = (x) => (100 * (x - from)) / (to - from);
  return h("td", { class: "quiz-bar" }, value === null || value === undefined ? "" : [
    box("quiz-fill", 0, place(value)), low === null || low === undefined ? null : box("quiz-interval", place(low), place(high)),
    mark === null || mark === undefined ? null : box("quiz-chance", place(mark), place(mark))]);
}

function box(name, left, right) {
  const element = h("i", { class: name });
  element.style.left = `${left}%`;
  element.style.width = `${right - left}%`;
  return element;
}

function resultSection(result, api) {
  const heading = h("h2", { id: "quiz-result" }, "What was replied so far");
  if (!result.replies) return h("section", { "aria-labelledby": "quiz-result" }, heading, h("p", { class: "muted" }, "Nothing yet."));
  const chance = result.chance ? result.chance.share : null;
  return h("section", { "aria-labelledby": "quiz-result" }, heading,
    h("p", null, `${result.replies} replies of ${result.unnamed ? "at least " : ""}${result.people} ${result.people === 1 ? "person" : "people"} about this model.`),
    result.reading.map((sentence) => h("p", { class: "claim" }, sentence)),
    h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Agreement" }, h("table", null, h("caption", null, "Agreement: mean rating, 1 (not at all) to 4 (clearly), with 95 % interval"),
      h("thead", null, h("tr", null, ["pairs from", "mean rating", "", "rated 3 or 4", "replies"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, result.agreement.map((line) => h("tr", null, h("th", { scope: "row" }, line.name),
        h("td", null, line.rating ? line.rating.words : "no replies yet"), line.rating ? bar(line.rating.mean, line.rating.low, line.rating.high, 1, 4) : h("td"),
        h("td", null, line.alike.words), h("td", { class: "number" }, line.rating ? line.rating.count : 0)))))),
    h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Distinction" }, h("table", null,
      h("caption", null, `Distinction: share of right choices, with 95 % interval${result.chance ? `; guessing gives ${result.chance.words}, the line in the bar` : ""}`),
      h("thead", null, h("tr", null, ["", "right choices", "", "of"].map((name, index) => h(index === 0 || index === 2 ? "td" : "th", index === 0 || index === 2 ? null : { scope: "col" }, name)))),
      h("tbody", null, result.distinction.map((line) => h("tr", null, h("th", { scope: "row" }, line.name), h("td", null, line.words),
        bar(line.share, line.low, line.high, 0, 1, line.share === null ? null : chance), h("td", { class: "number" }, line.of)))))),
    h("p", { class: "muted small" }, "It does not mean that other people would reply so, or that an explanation is true: it is about these people and these images."),
    h("p", null, h("a", { class: "button", href: api.picture("/api/quiz/replies.csv"), download: "quiz.csv" }, "Download all replies as CSV")));
}
