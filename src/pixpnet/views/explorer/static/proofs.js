// Prove it: the network is run on changed images, as a job, and the changed images and the unchanged number are shown.

import { dialog, failure, h, say, show } from "./dom.js";
import { runJob } from "./jobs.js";

function setBadge(badge, proof) {
  badge.className = `badge ${proof.held === null ? "muted" : proof.held ? "good" : "bad"}`;
  badge.textContent = `${proof.held === null ? "" : proof.held ? "✓ " : "✗ "}${proof.words}`;
}

export async function proveAll(start, root, answer, classes, api) {
  start.disabled = true;
  try {
    const job = await api.post("/api/proofs", { image: answer.image.id, classes });
    const result = await runJob(root, api, job);
    for (const term of result.terms) {
      const badge = document.querySelector(`.badge[data-prototype="${term.prototype}"][data-label="${term.label}"]`);
      if (badge) setBadge(badge, term.proof);
    }
    const tested = result.terms.filter((term) => term.proof.held !== null);
    const held = tested.filter((term) => term.proof.held).length;
    const upsampled = result.terms.filter((term) => term.proof.upsampling_held).length;
    const draws = result.terms[0].proof.draws;
    const words = tested.length ? `${held} of ${tested.length} claims held when every pixel outside their part was changed in ${draws} ways. Of the boxes that upsampling draws, ${upsampled} of ${result.terms.length} held.`
      : "Nothing could be tested: there is nothing outside the parts.";
    show(root, h("p", { class: held === tested.length ? "claim" : "note" }, words, result.deciding ? ` ${result.deciding}` : ""));
    say(words);
  } catch (error) {
    show(root, failure(error));
  } finally {
    start.disabled = false;
  }
}

export async function proofDialog({ answer, api, classes }, explained, term, badge) {
  const body = h("div", { class: "proof" });
  let job = null;
  let ended = false;
  const box = dialog(`Is it true of term ${term.number}?`, h("p", { class: "muted" },
    `The claim: the similarity of its cell to prototype ${term.prototype} depends on its part (${term.sees} of the image) and on nothing else. So everything outside is changed, and the network asked again.`), body);
  box.addEventListener("close", () => { if (job && !ended) api.cancel(job).catch(() => {}); });
  try {
    job = await api.post("/api/proofs", { image: answer.image.id, classes, prototype: term.prototype });
    const result = await runJob(body, api, job);
    ended = true;
    const proof = result.terms[0].proof;
    setBadge(badge, proof);
    show(body, verdictWords(proof, result), gallery(result, job, api, false), h("h3", null, "And if the part itself is changed?"),
      h("p", null, `Then the similarity moved by up to ${proof.inside}: the part matters.`), gallery(result, job, api, true),
      h("p", { class: "muted" }, `The same test of the box that upsampling draws ${proof.upsampling_held ? "held" : `failed: the similarity moved by up to ${proof.upsampling}`}. The score, for which another cell may win, moved by up to ${proof.score}.`));
    say(proof.words);
  } catch (error) {
    ended = true;
    show(body, failure(error));
  }
}

function verdictWords(proof, result) {
  if (proof.held === null) return h("p", { class: "note" }, "Nothing could be tested: the part is the whole image.");
  const number = result.changed[0].similarity;
  return proof.held ? h("p", { class: "claim" }, h("b", { class: "good" }, "✓ It held. "), `Everything outside was changed in ${proof.draws} ways, and the similarity stayed at ${number} (moved by ${proof.outside}).`)
    : h("p", { class: "note" }, h("b", { class: "bad" }, "✗ It failed. "), `The similarity was ${number} and moved by up to ${proof.outside}.`);
}

function gallery(result, job, api, inside) {
  const items = result.changed.map((image, index) => [image, index]).filter(([image, index]) => image.inside === inside || (index === 0 && !inside));
  return h("ul", { class: "changed" }, items.map(([image, index]) => h("li", null,
    h("img", { src: api.picture(`/api/jobs/${job.id}/pictures/${index}`), alt: image.change }),
    h("span", null, index === 0 ? "as it is" : image.change.split(": ").pop()),
    h("b", null, image.similarity), index ? h("span", { class: "muted" }, `moved ${image.moved}`) : null)));
}
