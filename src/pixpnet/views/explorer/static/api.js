// Requests to the server, with the token of the printed address; errors are sentences.

const KEY = "pixpnet-token";

// The token comes with the address and is kept for other tabs of this very server; the address is then clean to share.
function readToken() {
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given) {
    localStorage.setItem(KEY, given);
    address.searchParams.delete("token");
    history.replaceState(null, "", address.pathname + address.search + address.hash);
  }
  return localStorage.getItem(KEY) || "";
}

let token = readToken();

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { "x-pixpnet-token": token, ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer: is pixpnet serve still running in its terminal?", 0);
  }
  const text = await response.text();
  let values = null;
  try { values = JSON.parse(text); } catch { /* said below */ }
  if (!response.ok || values === null) {
    throw new ApiError((values && values.error) || `The server answered with an error (${response.status}).`, response.status);
  }
  return values;
}

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

export const api = {
  about: null, // what /api/run says, once the page has begun
  get: (path, signal) => ask(path, { signal }),
  post: (path, values) => ask(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(values),
  }),
  upload: (name, blob) => ask(`/api/images?name=${encodeURIComponent(name)}`, {
    method: "POST", headers: { "content-type": "application/octet-stream" }, body: blob,
  }),
  // The address of a picture, for an img: it carries the token, which stays on this computer.
  picture: (path) => `${path}${path.includes("?") ? "&" : "?"}token=${encodeURIComponent(token)}`,
  setToken(value) {
    token = value;
    localStorage.setItem(KEY, value);
  },
  // Follows a job to its end; `changed` is called with what is known. Gives the result, or throws.
  async follow(job, changed) {
    let known = job;
    for (;;) {
      changed(known);
      if (known.state === "done") return known.result;
      if (known.state === "failed") throw new ApiError(known.error || "The job failed.", 500);
      if (known.state === "cancelled") throw new ApiError("Cancelled.", 0);
      await pause(known.state === "waiting" ? 500 : 250);
      known = await ask(`/api/jobs/${encodeURIComponent(known.id)}`);
    }
  },
  cancel: (job) => ask(`/api/jobs/${encodeURIComponent(job.id)}/cancel`, { method: "POST", body: "{}" }),
};
