// A job on the page: what it does, how far it is, how long it will take, and a button that ends it.

import { button, h, say } from "./dom.js";

function timeLeft(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return seconds < 90 ? `${Math.ceil(seconds)} s left` : `${Math.round(seconds / 60)} min left`;
}

// Shows a job in `root` until it ends; gives its result, or throws what went wrong.
export async function runJob(root, api, job) {
  const bar = h("progress", { max: 1, "aria-label": job.title });
  const words = h("span", { class: "muted small" }, "waiting for its turn");
  const cancel = button("Cancel", async () => {
    cancel.disabled = true;
    words.textContent = "ending …";
    try { await api.cancel(job); } catch { /* it has ended, or the server is gone: following says so */ }
  });
  const box = h("div", { class: "job" }, h("b", null, job.title), bar, words, cancel);
  root.replaceChildren(box);
  try {
    const result = await api.follow(job, (known) => {
      if (known.total) { bar.max = known.total; bar.value = known.done; }
      if (known.state === "running" && !cancel.disabled) {
        words.textContent = [known.task, known.total ? `${known.done} of ${known.total}` : "", timeLeft(known.seconds_left)]
          .filter(Boolean).join(", ");
      }
    });
    say(`${job.title}: done`);
    return result;
  } finally {
    box.remove();
  }
}
