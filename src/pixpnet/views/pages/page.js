"use strict";
// The page is whole without this. It pins a region by a tap or click, and opens what is folded before printing.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.tag");
  if (!button) return;
  const pin = button.getAttribute("aria-pressed") !== "true";
  for (const other of button.closest(".why").querySelectorAll("button.tag")) {
    other.setAttribute("aria-pressed", String(pin && other === button));
  }
});
for (const tree of document.querySelectorAll("[data-tree]")) {
  tree.querySelector(".tools").hidden = false;
  tree.addEventListener("click", (event) => {
    const button = event.target.closest("[data-fold]");
    if (!button) return;
    for (const branch of tree.querySelectorAll("details")) branch.open = button.dataset.fold === "open";
  });
  tree.querySelector("[data-zoom]").addEventListener("input", (event) => {
    tree.style.setProperty("--thumb", `${event.target.value}rem`);
  });
}
window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details:not([open])")) {
    folded.open = true;
    folded.dataset.folded = "";
  }
});
window.addEventListener("afterprint", () => {
  for (const folded of document.querySelectorAll("details[data-folded]")) {
    folded.open = false;
    delete folded.dataset.folded;
  }
});
