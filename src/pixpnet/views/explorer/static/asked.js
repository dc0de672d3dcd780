// The pictures that were given to this page in this browser tab, with what they were taken for.

const KEY = "pixpnet-asked";

export function asked() {
  try { return JSON.parse(sessionStorage.getItem(KEY) || "[]"); } catch { return []; }
}

export function remember(line) {
  const lines = [line, ...asked().filter((other) => other.id !== line.id)].slice(0, 500);
  sessionStorage.setItem(KEY, JSON.stringify(lines));
}

export function forgetAll() {
  sessionStorage.removeItem(KEY);
}
