// Small helpers. Everything from outside enters as text, never as markup.

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
