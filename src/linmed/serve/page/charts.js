// Lines, with bands where they have them. Each chart has a sentence for those who do not see it, its numbers as a
// table, and a guide that the pointer or the arrow keys move.

import { compact, draw, known, make, number } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [46, 10, 10, 24];

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(+v.toFixed(12));
  return found;
}

export class Chart {
  // across: how a place on the x axis is written; up: the same of a value; series: {name, label, style}.
  constructor(place, { across, up = number, height = 230, zero = false, top = null, reference = null, settled = 0 }) {
    Object.assign(this, { place, across, up, height, zero, top, reference, settled, lines: [], at: null });
    this.picture = make("div", { class: "picture", tabindex: 0, role: "group" });
    this.readout = make("p", { class: "readout", "aria-live": "polite" });
    this.body = make("tbody");
    this.head = make("tr");
    const table = make("table", {}, make("thead", {}, this.head), this.body);
    this.numbers = make("details", {}, make("summary", {}, "As numbers"), make("div", { class: "scroll" }, table));
    this.numbers.addEventListener("toggle", () => this.tabulate());
    this.picture.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.picture.addEventListener("pointerleave", () => this.guide(null));
    this.picture.addEventListener("blur", () => this.guide(null));
    this.picture.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.width !== this.picture.clientWidth && this.render()).observe(this.picture);
    place.append(this.picture, this.readout, this.numbers);
  }

  // lines: [{label, style, points: [{x, y, low, high}]}]; said: what the drawing shows, in a sentence; changes:
  // places where a band stands upright.
  show(lines, said, changes = []) {
    this.lines = lines;
    this.changes = changes;
    this.said = said;
    this.places = [...new Set(lines.flatMap((line) => line.points.map((p) => p.x)))].sort((a, b) => a - b);
    this.picture.setAttribute("aria-label", said + " The arrow keys read single points.");
    this.render();
    this.tabulate();
  }

  blank(instead = "") {
    this.lines = [];
    this.at = null;
    this.readout.textContent = "";
    this.body.replaceChildren();
    this.picture.removeAttribute("aria-label");
    this.picture.replaceChildren(...(instead ? [make("p", { class: "none" }, instead)] : []));
  }

  render() {
    this.width = this.picture.clientWidth;
    if (!this.lines.length || !this.width) return;
    // Bands are widest at the beginning, where nothing is known: what matters sets the scale.
    const begun = this.places[0] + this.settled * (this.places[this.places.length - 1] - this.places[0]);
    const points = this.lines.flatMap((line) => line.points.filter((p) => p.x >= begun));
    const values = points.flatMap((p) => [p.y, p.low, p.high]).filter(known);
    if (known(this.reference)) values.push(this.reference);
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (this.zero) low = Math.min(0, low);
    if (known(this.top)) high = Math.min(Math.max(this.top, low + 1e-9), high);
    if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
    const [first, last] = [this.places[0], this.places[this.places.length - 1]];
    this.x = (v) => LEFT + ((this.width - LEFT - RIGHT) * (v - first)) / (last - first || 1);
    this.y = (v) => TOP + (this.height - TOP - BOTTOM) * (1 - (Math.min(high, Math.max(low, v)) - low) / (high - low));
    const svg = draw("svg", { width: this.width, height: this.height, role: "img" }, draw("title", {}, this.said));
    this.axes(svg, low, high, first, last);
    for (const at of this.changes.filter((v) => v >= first && v <= last)) {
      svg.append(draw("rect", { class: "change", x: this.x(at) - 4, y: TOP, width: 8, height: this.height - TOP - BOTTOM }));
    }
    for (const line of this.lines) if (line.points.some((p) => known(p.low))) svg.append(this.band(line, high));
    for (const line of this.lines) svg.append(...this.curve(line));
    this.pen = draw("g", { class: "guide" });
    svg.append(this.pen);
    this.picture.replaceChildren(svg);
    this.guide(this.at);
  }

  axes(svg, low, high, first, last) {
    for (const v of ticks(low, high, 5)) {
      svg.append(draw("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: this.y(v), y2: this.y(v) }));
      svg.append(draw("text", { x: LEFT - 8, y: this.y(v) + 4, "text-anchor": "end" }, compact(v)));
    }
    if (known(this.reference)) {
      const at = this.y(this.reference);
      svg.append(draw("line", { class: "reference", x1: LEFT, x2: this.width - RIGHT, y1: at, y2: at }));
    }
    const marks = this.across.ticks ? ticks(first, last, this.width < 500 ? 3 : 6) : [first, last];
    let free = this.width - RIGHT;
    for (const v of marks.reverse()) {
      const text = this.across.write(v) + (v === marks[0] && this.across.ticks ? " " + this.across.unit : "");
      const centred = this.x(v) - (this.across.ticks ? 3.4 * this.across.write(v).length : 0); // the number, not the unit
      const start = Math.min(centred, this.width - RIGHT - 6.8 * text.length);
      if (start + 6.8 * text.length > free) continue; // no room
      svg.append(draw("text", { x: start, y: this.height - 6 }, text));
      free = start - 8;
    }
  }

  band(line, high) {
    const seen = line.points.filter((p) => known(p.low));
    const above = seen.map((p) => `${this.x(p.x).toFixed(1)} ${this.y(p.high ?? high).toFixed(1)}`);
    const below = seen.map((p) => `${this.x(p.x).toFixed(1)} ${this.y(p.low).toFixed(1)}`).reverse();
    return draw("path", { class: "band " + line.style, d: `M${[...above, ...below].join("L")}Z` });
  }

  curve(line) {
    let d = "";
    const dots = [];
    line.points.forEach((p, i) => { // where nothing is known there is no line, and a point alone is a dot
      if (!known(p.y)) return;
      const [before, after] = [known(line.points[i - 1]?.y), known(line.points[i + 1]?.y)];
      d += `${before ? "L" : "M"}${this.x(p.x).toFixed(1)} ${this.y(p.y).toFixed(1)}`;
      if (!after && (!before || i === line.points.length - 1)) dots.push(p);
    });
    const circle = (p) => draw("circle", { class: "end " + line.style, cx: this.x(p.x), cy: this.y(p.y), r: 3.5 });
    return d ? [draw("path", { class: "line " + line.style, d }), ...dots.map(circle)] : [];
  }

  point(offset) {
    if (!this.lines.length) return;
    let best = 0;
    this.places.forEach((v, i) => {
      if (Math.abs(this.x(v) - offset) < Math.abs(this.x(this.places[best]) - offset)) best = i;
    });
    this.guide(this.places[best]);
  }

  step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !this.lines.length) return;
    event.preventDefault();
    const now = this.at === null ? (move > 0 ? -1 : this.places.length) : this.places.indexOf(this.at);
    this.guide(this.places[Math.min(this.places.length - 1, Math.max(0, now + move))]);
  }

  guide(at) {
    this.at = this.places?.includes(at) ? at : null;
    this.pen?.replaceChildren();
    this.readout.textContent = this.at === null ? "" : `${this.across.write(at)} ${this.across.unit}: ${this.told(at)}`;
    if (this.at === null || !this.pen) return;
    this.pen.append(draw("line", { x1: this.x(at), x2: this.x(at), y1: TOP, y2: this.height - BOTTOM }));
    for (const line of this.lines) {
      const p = line.points.find((one) => one.x === at);
      if (p && known(p.y)) this.pen.append(draw("circle", { class: "end " + line.style, cx: this.x(at), cy: this.y(p.y), r: 4.5 }));
    }
  }

  told(at) {
    return this.lines.map((line) => `${line.label} ${this.written(line.points.find((p) => p.x === at))}`).join("; ");
  }

  written(p) {
    if (!p || !known(p.y)) return "–";
    if (!known(p.low)) return this.up(p.y);
    return `${this.up(p.y)} (${known(p.high) ? `${this.up(p.low)} to ${this.up(p.high)}` : `at least ${this.up(p.low)}`})`;
  }

  tabulate() {
    if (!this.numbers.open || !this.lines.length) return;
    const titles = [this.across.unit, ...this.lines.map((line) => line.label)];
    this.head.replaceChildren(...titles.map((title) => make("th", { scope: "col" }, title)));
    this.body.replaceChildren(...this.places.map((at) => make("tr", {},
      make("th", { scope: "row" }, this.across.write(at)),
      ...this.lines.map((line) => make("td", {}, this.written(line.points.find((p) => p.x === at)))),
    )));
  }
}
