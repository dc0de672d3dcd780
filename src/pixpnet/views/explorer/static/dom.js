// Elements by hand: text is always text, so nothing that comes from outside is ever markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// h("p", {class: "muted", onclick: f}, "text", child): an element of HTML.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for SVG.
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function show(root, ...children) {
  root.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

export function loading(what) {
  return h("p", { class: "muted loading", role: "status" }, `${what} …`);
}

export function failure(error, again) {
  return h("div", { class: "note failure", role: "alert" },
    h("p", null, h("b", null, error.message || String(error))),
    again ? h("button", { type: "button", class: "plain", onclick: again }, "Try again") : null);
}

export function say(text) {
  document.getElementById("status").textContent = text;
}

export function button(text, onclick, attributes) {
  return h("button", { type: "button", class: "plain", onclick, ...attributes }, text);
}

// A command that a person may copy.
export function command(text) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      copy.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  }, { "aria-label": `Copy the command ${text}` });
  const code = h("code", null, text);
  return h("p", { class: "command" }, code, copy);
}

// A dialog that is gone when it is closed.
export function dialog(title, ...children) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const box = h("dialog", { class: "box", "aria-labelledby": "dialog-title" },
    h("div", { class: "head" }, heading, button("Close", () => box.close(), { "aria-label": `Close: ${title}` })), ...children);
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}
