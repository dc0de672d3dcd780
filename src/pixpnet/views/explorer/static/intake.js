// Pictures from a person: dropped, pasted, chosen, or taken with the camera.

import { button, dialog, h } from "./dom.js";

// Watches the whole window for dropped and pasted pictures; gives back what stops it.
export function watchWindow(take) {
  const files = (list) => [...(list || [])].filter((file) => file.size > 0);
  const over = (event) => {
    if (![...(event.dataTransfer?.types || [])].includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  };
  const away = (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); };
  const drop = (event) => {
    document.body.classList.remove("dropping");
    const given = files(event.dataTransfer?.files);
    if (!given.length) return;
    event.preventDefault();
    take(given);
  };
  const paste = (event) => {
    const given = files(event.clipboardData?.files);
    if (given.length) take(given);
  };
  const events = { dragover: over, dragleave: away, drop, paste };
  for (const [name, listener] of Object.entries(events)) window.addEventListener(name, listener);
  return () => { for (const [name, listener] of Object.entries(events)) window.removeEventListener(name, listener); };
}

export function chooser(take) {
  const input = h("input", { type: "file", accept: "image/*", multiple: true, class: "visually-hidden", tabindex: "-1", "aria-label": "Picture files" });
  input.addEventListener("change", () => {
    const given = [...input.files];
    input.value = "";
    if (given.length) take(given);
  });
  return h("span", null, input, button("Choose pictures", () => input.click(), { class: "plain main" }));
}

export function cameraButton(take) {
  return button("Use the camera", async () => {
    const video = h("video", { autoplay: true, playsinline: true, muted: true, "aria-label": "What the camera sees" });
    const words = h("p", { class: "muted", role: "status" }, "Waiting for the camera: the browser asks you first.");
    const snap = button("Take the picture", () => {
      const canvas = h("canvas", { width: video.videoWidth, height: video.videoHeight });
      canvas.getContext("2d").drawImage(video, 0, 0);
      canvas.toBlob((blob) => {
        box.close();
        take([new File([blob], "camera.jpg", { type: "image/jpeg" })]);
      }, "image/jpeg", 0.95);
    }, { class: "plain main", disabled: true });
    let stream = null;
    const box = dialog("Camera", video, words, snap);
    box.addEventListener("close", () => { for (const track of stream ? stream.getTracks() : []) track.stop(); });
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1280 } }, audio: false });
      if (!box.isConnected) { for (const track of stream.getTracks()) track.stop(); return; }
      video.srcObject = stream;
      await video.play();
      snap.disabled = false;
      words.textContent = "The picture stays on this computer.";
      snap.focus();
    } catch (error) {
      words.textContent = error.name === "NotAllowedError" ? "The browser did not allow the camera." : "There is no camera that this page can use.";
    }
  });
}

// Gives pictures to the server one after the other; `done` hears of each, with what it was taken for or why not.
export async function giveAll(api, files, done) {
  const limit = api.about.max_bytes;
  for (const file of files) {
    const name = file.name || "pasted picture";
    try {
      if (file.size > limit) throw new Error(`${name} is larger than ${Math.floor(limit / 2 ** 20)} MB: make it smaller and ask again`);
      done(await api.upload(name, file), null, name);
    } catch (error) {
      done(null, error, name);
    }
  }
}
