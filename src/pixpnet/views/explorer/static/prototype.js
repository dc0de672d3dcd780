// One prototype: where it comes from, what is nearest to it, whom it misled, and what a person says of it.

import { button, failure, h, loading, say, show } from "./dom.js";
import { runJob } from "./jobs.js";
import { verdictWords } from "./prototypes.js";
import { partShot, shot } from "./regions.js";
import { giveVerdict, stale, undoVerdict } from "./saying.js";

// key: verdict; in the order of their buttons
const KEYS = { k: "keep", r: "remove", f: "forbid", m: "remember" };

export async function render(root, params, api) {
  const number = Number(params.path[1]);
  const facts = await api.get(`/api/prototypes/${encodeURIComponent(params.path[1] || "")}`);
  document.title = `${facts.name || `Prototype ${number}`} · ${api.about.run}`;
  const size = { width: facts.size, height: facts.size };
  const source = { url: api.picture(`/api/prototypes/${number}/picture`), ...size };
  const origin = facts.origin;
  const said = h("div", { class: "said" });
  const state = { facts, api, said, serial: facts.serial };
  drawVerdicts(state);

  const near = h("div");
  show(root,
    h("header", { class: "answer" },
      h("p", { class: "small proto-nav" }, h("a", { href: "#/prototypes" }, "all prototypes"),
        number > 0 ? h("a", { href: `#/prototype/${number - 1}`, rel: "prev" }, `← ${number - 1}`) : null,
        number + 1 < facts.of ? h("a", { href: `#/prototype/${number + 1}`, rel: "next" }, `${number + 1} →`) : null),
      h("h1", { id: "proto-heading" }, facts.name || `Prototype ${number}`),
      h("p", { class: "lead" }, [facts.name ? `prototype ${number}` : "", facts.class_names.length ? `speaks for ${facts.class_names.slice(0, 4).join(", ")}${facts.class_names.length > 4 ? " and others" : ""}` : "speaks for no class of its own",
        origin ? `a part of ${origin.image}` : "no patch of a training image"].filter(Boolean).join(" · "))),
    h("div", { class: "proto-page" },
      origin ? h("div", { class: "proto-pictures" },
        h("figure", null, partShot(source, origin.region, "Exactly what its cell saw"), h("figcaption", null, `Exactly what its cell saw: ${origin.sees} of the image.`)),
        h("figure", null, shot({ ...source, label: `Its training image ${origin.image}, with the region outlined`, marks: origin.region ? [{ path: origin.region.path, group: 0 }] : [] }),
          h("figcaption", null, origin.id ? h("a", { href: `#/image/${origin.id}` }, origin.image) : origin.image, ` (${origin.class}), cell ${origin.cell}`))) : null,
      h("div", null, h("h2", { class: "first" }, "What you say of it"), said,
        h("h2", null, "What is known of it"),
        facts.reviewed ? [facts.reasons.length ? h("ul", null, facts.reasons.map((reason) => h("li", null, reason))) : null,
          h("table", null, h("tbody", null, facts.facts.map(([name, words]) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, words)))))]
          : h("p", { class: "muted" }, "Not reviewed yet: ", h("a", { href: "#/prototypes" }, "review every prototype"), "."))),
    h("section", { "aria-labelledby": "near-heading" }, h("h2", { id: "near-heading" }, "Nearest patches"), near),
    misled(facts, api));
  let job = null;
  const begin = () => nearest(near, api, number, size, (known) => { job = known; });
  if (facts.reviewed) begin();
  else show(near, h("p", { class: "muted" }, "The first time, all training and validation images are gone through."), button("Look for them", begin));

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || document.querySelector("dialog[open]")) return;
    if (event.key === "ArrowLeft" && number > 0) location.hash = `#/prototype/${number - 1}`;
    else if (event.key === "ArrowRight" && number + 1 < facts.of) location.hash = `#/prototype/${number + 1}`;
    else if (KEYS[event.key]) {
      const choice = said.querySelector(`[data-kind="${KEYS[event.key]}"]`);
      if (choice && !choice.disabled) choice.click();
    }
  };
  document.addEventListener("keydown", onKey);
  return () => {
    document.removeEventListener("keydown", onKey);
    if (job) api.cancel(job).catch(() => {}); // it has ended, or the server is gone
  };
}

function drawVerdicts(state) {
  const { facts, api, said } = state;
  const problems = h("div", { role: "alert" });
  const current = verdictWords(facts);
  async function say_(kind, more = {}) {
    try {
      const answer = await giveVerdict(api, state, { prototype: facts.number, kind, ...more });
      if (answer) take(answer, kind === "name" ? "named" : kind);
    } catch (error) {
      show(problems, failure(error));
    }
  }
  function take(answer, word) {
    state.serial = answer.serial;
    Object.assign(facts, { name: "", action: null, weight: null, forbidden: 0, remembered: 0 }, answer.standing[String(facts.number)]);
    drawVerdicts(state);
    if (answer.stale) said.prepend(stale(answer.stale));
    else {
      document.getElementById("proto-heading").textContent = facts.name || `Prototype ${facts.number}`;
      say(`Prototype ${facts.number}: ${word}`);
    }
    state.last = answer.lines.find((line) => line.prototype === facts.number && !line.undone && line.kind);
    if (state.last && !answer.stale) said.append(undoButton());
  }
  function undoButton() {
    return h("p", null, button("Undo the last verdict on it", async () => {
      try {
        const answer = await undoVerdict(api, state, state.last.serial);
        if (answer) take(answer, "taken back");
      } catch (error) {
        show(problems, failure(error));
      }
    }));
  }
  const verdict = (kind, words, key, pressed, disabled) => button(words, () => say_(kind), { "data-kind": kind, "aria-pressed": String(Boolean(pressed)), disabled, "aria-keyshortcuts": key });
  const patch = Boolean(facts.origin);
  const field = h("input", { id: "proto-name", maxlength: "80", value: facts.name, placeholder: "red belly", autocomplete: "off" });
  const weight = h("input", { id: "proto-weight", type: "number", min: "0.01", max: "1000000", step: "any", value: facts.weight || 1 });
  show(said,
    h("p", { role: "status" }, current ? `Now: ${current}.` : "Nothing yet."),
    h("p", { class: "tools verdicts" }, verdict("keep", "Keep", "k", facts.action === "keep"), verdict("remove", "Remove", "r", facts.action === "remove"),
      verdict("forbid", "Forbid its patch", "f", facts.forbidden, !patch), verdict("remember", "Remember its patch", "m", facts.remembered, !patch)),
    h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); say_("name", { text: field.value.trim() }); } },
      h("label", { for: "proto-name" }, "Name it"), field, h("button", { type: "submit", class: "plain" }, "Save the name")),
    h("details", null, h("summary", null, "Require it"), h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); say_("require", { weight: Number(weight.value) }); } },
      h("label", { for: "proto-weight" }, "with a weight of at least"), weight, h("button", { type: "submit", class: "plain" }, "Require")),
      h("p", { class: "muted small" }, "Where the weights of the head were learnt; a class sum has none to require.")),
    h("p", { class: "muted small" }, "Remove: the model answers without it, at once (", h("a", { href: "#/verdicts" }, "see what that does"), "). Forbid and remember: for retraining. Keys: K, R, F, M; arrows go to its neighbours."),
    problems);
}

async function nearest(root, api, number, size, started) {
  try {
    show(root, loading("Looking"));
    const job = await api.post(`/api/prototypes/${number}/nearest`, {});
    started(job);
    const result = await runJob(root, api, job);
    show(root, patches("Training images", result.train, api, size), patches("Validation images", result.val, api, size));
  } catch (error) {
    show(root, failure(error, () => nearest(root, api, number, size, started)));
  }
}

function patches(title, near, api, size) {
  return h("div", null, h("h3", null, title), near.length ? h("ul", { class: "near" }, near.map((patch) => {
    const picture = { url: api.picture(`/api/images/${patch.id}/picture`), ...size };
    const inside = [patch.id ? partShot(picture, patch.region, `The patch of ${patch.name}`) : h("div", { class: "nothing" }, "not at hand"),
      h("span", { class: patch.own ? "" : "bad" }, patch.class), h("span", { class: "muted small" }, patch.score)];
    return h("li", null, patch.id ? h("a", { href: `#/image/${patch.id}`, title: patch.name }, inside) : inside);
  })) : h("p", { class: "muted" }, "There are none."));
}

function misled(facts, api) {
  if (!facts.reviewed) return null;
  return h("section", { "aria-labelledby": "misled-heading" }, h("h2", { id: "misled-heading" }, "Images that it misled"),
    facts.misled_images.length ? [h("p", { class: "muted" }, "Validation images with a wrong answer, to which it added more than any other prototype."),
      h("ul", { class: "wall" }, facts.misled_images.map((image) => h("li", null, h("a", { href: image.id ? `#/image/${image.id}` : null },
        image.id ? h("img", { src: api.picture(`/api/images/${image.id}/thumbnail`), alt: "", loading: "lazy", width: 160, height: 160 }) : null,
        h("span", null, image.truth), h("span", { class: "bad small" }, `✗ ${image.answer}, it added ${image.adds}`)))))]
      : h("p", { class: "muted" }, "None."));
}
