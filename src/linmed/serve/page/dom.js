// Small helpers: elements and numbers. Everything from outside enters as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const make = (name, attributes = {}, ...children) =>
  filled(document.createElement(name), attributes, children);

export const draw = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

export const known = (x) => x !== null && x !== undefined;
export const percent = (x, digits = 1) => (known(x) ? (100 * x).toFixed(digits) + " %" : "–");
export const whole = (x) => x.toLocaleString("en-GB");
export const range = (one, digits = 3) => `${number(one.lower, digits)} to ${number(one.upper, digits)}`;

export function number(x, digits = 3) {
  if (!known(x)) return "–";
  if (Math.abs(x) >= 1e5) return minus(x.toPrecision(digits));
  return minus(x !== 0 && Math.abs(x) < 10 ** -digits ? x.toPrecision(1) : x.toFixed(digits));
}

export function clock(microseconds) {
  const shape = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  return new Date(microseconds / 1000).toLocaleTimeString("en-GB", shape);
}

const minus = (text) => text.replace(/^-/, "−");

export function compact(x) {
  if (Math.abs(x) >= 1e6) return minus(+(x / 1e6).toFixed(1) + " M");
  if (Math.abs(x) >= 1e4) return minus(+(x / 1e3).toFixed(1) + " k");
  return minus(String(+x.toPrecision(4)));
}

// A bar from `low` to `high` of an axis, with a mark on it: percentages, so that it fits any width.
export function bar(title, axis, { low, high, mark = null, style = "" }) {
  const share = (v) => Math.min(100, Math.max(0, (100 * (v - axis[0])) / (axis[1] - axis[0] || 1)));
  const svg = draw("svg", { class: "bar " + style, role: "img" }, draw("title", {}, title));
  svg.append(draw("rect", { class: "track", x: 0, y: 7, width: "100%", height: 4, rx: 2 }));
  const from = share(low);
  svg.append(draw("rect", { class: "extent", x: from + "%", y: 4, width: Math.max(0.5, share(high) - from) + "%", height: 10, rx: 3 }));
  if (known(mark)) svg.append(draw("circle", { class: "mark", cx: share(mark) + "%", cy: 9, r: 4.5 }));
  return svg;
}

// Requests to the service this page came from, with the token that the user gave, if any.

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const keep = (token) => sessionStorage.setItem("token", token);

export async function ask(path, { body, signal } = {}) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method: text ? "POST" : "GET", headers, body: text, signal });
  const found = await answer.json().catch(() => ({ error: { message: `the service answered ${answer.status}` } }));
  if (!answer.ok) throw new Refusal(answer.status, found.error.message);
  return found;
}

// What went wrong, for people: which scope is missing is in the service's own words.
export function explained(error) {
  if (error instanceof TypeError) return "no connection; trying again";
  if (error.status === 401) return "a token is needed";
  return error.message;
}
