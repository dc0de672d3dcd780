// Verdicts on their way to the log. Each says which line was seen last, so that two tabs never overwrite each other.

import { h } from "./dom.js";

export async function giveVerdict(api, state, verdict) {
  return oneAtATime(state, () => api.post("/api/verdicts", { ...verdict, expected: state.serial }));
}

export async function undoVerdict(api, state, serial) {
  return oneAtATime(state, () => api.post("/api/verdicts/undo", { serial, expected: state.serial }));
}

// A second click before the answer to the first is there says nothing new: null, and nothing is sent.
async function oneAtATime(state, send) {
  if (state.pending) return null;
  state.pending = true;
  try {
    return await send();
  } finally {
    state.pending = false;
  }
}

export function stale(words) {
  return h("p", { class: "note", role: "alert" }, h("b", null, "Somebody else gave a verdict in between, so nothing was written. "), "What holds now is shown: decide again. ",
    h("span", { class: "muted small" }, words));
}
