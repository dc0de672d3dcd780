// The search of a site that was opened from disk: browsers start no worker from a file, so the worker's script runs in a
// hidden frame of the page instead, and messages go to and fro as a worker's do. Elsewhere real workers are used.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = () => Promise.resolve(); // languages other than English, which this site has not got
      const script = frame.contentDocument.createElement("script");
      script.src = address;
      script.onload = () => {
        this.inside = inside;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: `cannot load ${address}` }));
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      if (this.inside) {
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      } else {
        this.waiting.push(data);
      }
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    terminate() {
      this.inside = undefined;
    }
  };
}
