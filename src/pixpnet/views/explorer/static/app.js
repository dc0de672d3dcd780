// The frame of the page: tabs, and a router by the part of the address behind #, so that everything can be linked to.
//
// A view is a module with `render(root, params, api)`; it may give back a function that cleans up. `params.path` are
// the words of the address (#/image/val-1 gives ["image", "val-1"]), `params.query` what stands behind its "?".

import { api } from "./api.js";
import { button, failure, h, loading, say, show } from "./dom.js";

// name in the address: [module, name of its tab; none for views that belong to another tab, that tab]
const VIEWS = {
  ask: ["ask", "Ask"],
  image: ["image", "", "ask"],
  prototypes: ["prototypes", "Prototypes"],
  prototype: ["prototype", "", "prototypes"],
  verdicts: ["verdicts", "Mend"],
  quiz: ["quiz", "Quiz"],
  network: ["network", "Network"],
  measures: ["measures", "Measures"],
};

const main = document.getElementById("main");
let leave = null;
let current = 0;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const words = path.split("/").filter(Boolean).map((word) => {
    try { return decodeURIComponent(word); } catch { return word; }
  });
  return { path: words.length ? words : ["ask"], query: new URLSearchParams(query || "") };
}

function markTab(name) {
  const tab = VIEWS[name] && VIEWS[name][2] ? VIEWS[name][2] : name;
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.dataset.tab !== tab) { link.removeAttribute("aria-current"); continue; }
    link.setAttribute("aria-current", "page");
    // On a narrow screen tabs scroll: the one that is open is in view.
    const bar = link.closest("nav");
    bar.scrollLeft = link.offsetLeft - bar.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2;
  }
}

async function open(first) {
  const params = route();
  const view = VIEWS[params.path[0]];
  const turn = ++current;
  if (leave) { leave(); leave = null; }
  markTab(params.path[0]);
  if (!view) {
    show(main, h("h1", null, "There is nothing here"), h("p", null, h("a", { href: "#/ask" }, "Ask the model")));
    return;
  }
  // A page of its own for each turn: a view that is late draws on one that nobody sees any more.
  const page = h("div", null, loading("Loading"));
  show(main, page);
  try {
    const module = await import(`./${view[0]}.js`);
    if (turn !== current) return;
    const cleanUp = await module.render(page, params, api);
    if (turn === current) leave = cleanUp || null;
    else if (cleanUp) cleanUp();
  } catch (error) {
    if (turn !== current) return;
    show(main, error.status === 401 ? askForToken(error) : failure(error, () => open(false)));
  }
  if (!first && turn === current) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    say(document.title);
  }
}

function askForToken(error) {
  const field = h("input", { id: "token", autocomplete: "off", spellcheck: "false" });
  const take = (event) => {
    event.preventDefault();
    const given = field.value.trim();
    api.setToken(given.includes("token=") ? new URL(given, location.href).searchParams.get("token") || "" : given);
    begin();
  };
  return h("section", null, h("h1", null, "Open the printed address"), h("p", { role: "alert" }, error.message),
    h("form", { onsubmit: take }, h("p", null, h("label", { for: "token" }, "Or paste that address, or its token, here: "), field, " ",
      h("button", { type: "submit", class: "plain" }, "Open"))));
}

async function begin() {
  try {
    api.about = await api.get("/api/run");
  } catch (error) {
    show(main, error.status === 401 ? askForToken(error) : failure(error, begin));
    return;
  }
  const about = api.about;
  document.getElementById("run-name").textContent = about.run;
  document.getElementById("tabs").replaceChildren(...Object.entries(VIEWS).filter(([, view]) => view[1]).map(([name, view]) =>
    h("li", null, h("a", { href: `#/${name}`, "data-tab": name }, view[1]))));
  window.onhashchange = () => open(false); // one listener, however often this begins
  open(true);
}

document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind # is the router's
  main.focus();
});
begin();
