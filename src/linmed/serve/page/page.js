"use strict";
// The page reads the API every two seconds. Everything from outside enters as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const find = (id) => document.getElementById(id);
const percent = (x) => (x === null ? "–" : (100 * x).toFixed(1) + " %");
const number = (x, digits = 3) => (x === null || x === undefined ? "–" : x.toFixed(digits));
let paused = false;
let timer = 0;

function make(name, attributes = {}, text = null) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function draw(name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

async function read(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { headers: token ? { Authorization: "Bearer " + token } : {} });
  if (answer.status === 401 || answer.status === 403) find("access").hidden = false;
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body;
}

function clock(microseconds) {
  return new Date(microseconds / 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function chart(place, points, series, top) {
  const [width, height, left, bottom] = [600, 180, 44, 24];
  const values = series.flatMap((one) => points.map((p) => p[one.name])).filter((v) => v !== null);
  const low = Math.min(0, ...values);
  const high = top ?? Math.max(low + 1e-9, ...values);
  const x = (i) => left + ((width - left - 6) * i) / Math.max(points.length - 1, 1);
  const y = (v) => 8 + (height - bottom - 8) * (1 - (v - low) / (high - low));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const latest = series.map((one) => {
    const seen = points.map((p) => p[one.name]).filter((v) => v !== null);
    return `${one.label}: latest ${seen.length ? number(seen[seen.length - 1], 2) : "none"}`;
  });
  svg.append(draw("title", {}, latest.join("; ")));
  for (const v of [low, (low + high) / 2, high]) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width, y1: y(v), y2: y(v) }));
    svg.append(draw("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, +v.toFixed(2)));
  }
  for (const one of series) {
    let path = "", pen = "M";
    points.forEach((p, i) => {
      if (p[one.name] === null) return;
      path += `${pen}${x(i).toFixed(1)} ${y(p[one.name]).toFixed(1)}`;
      pen = "L";
    });
    svg.append(draw("path", { class: "line " + one.style, d: path }));
  }
  if (points.length) {
    svg.append(draw("text", { x: left, y: height - 6 }, clock(points[0].time)));
    svg.append(draw("text", { x: width - 2, y: height - 6, "text-anchor": "end" }, clock(points[points.length - 1].time)));
  }
  find(place).replaceChildren(svg);
}

function showStatistics(s) {
  find("policy").textContent = `${s.policy}, version ${s.policy_version}${s.archived ? ", archived" : ""}`;
  const rows = {
    "decisions": s.decisions.toLocaleString(),
    "rewards": s.rewards.toLocaleString(),
    "pending rewards": s.pending.toLocaleString(),
    "mean reward": number(s.mean_reward),
    "exploration rate": percent(s.exploration_rate),
  };
  find("numbers").replaceChildren(...Object.entries(rows).map(([name, value]) => {
    const pair = make("div");
    pair.append(make("dt", {}, name), make("dd", {}, value));
    return pair;
  }));
  chart("chart-time", s.over_time, [
    { name: "decisions", label: "decisions", style: "decisions" },
    { name: "rewards", label: "rewards", style: "rewards" },
  ]);
  chart("chart-mean", s.over_time, [
    { name: "mean_reward", label: "mean reward", style: "mean" },
    { name: "exploration_rate", label: "exploration", style: "exploration" },
  ]);
  find("arms-caption").textContent = `of the last ${s.recent.toLocaleString()} decisions`;
  find("arms").tBodies[0].replaceChildren(...s.arm_shares.map((one) => {
    const row = make("tr");
    const cell = make("td");
    cell.append(make("meter", { value: one.share, "aria-label": `share of arm ${one.arm}` }, percent(one.share)));
    row.append(make("th", { scope: "row" }, one.arm), make("td", {}, percent(one.share)), cell);
    return row;
  }));
}

function interval(one, low, high) {
  const at = (v) => (176 * (v - low)) / (high - low || 1);
  const svg = draw("svg", { viewBox: "0 0 176 20", role: "img" });
  svg.append(draw("title", {}, `from ${number(one.lower)} to ${number(one.upper)}`));
  svg.append(draw("line", { class: "whisker", x1: at(one.lower), x2: at(one.upper), y1: 10, y2: 10 }));
  svg.append(draw("circle", { class: "point", cx: at(Math.min(high, Math.max(low, one.estimate))), cy: 10, r: 4 }));
  return svg;
}

function showEstimates(e) {
  const bounds = e.results.filter((one) => one.lower !== null);
  const low = Math.min(...bounds.map((one) => one.lower));
  const high = Math.max(...bounds.map((one) => one.upper));
  find("estimates").tBodies[0].replaceChildren(...e.results.map((one) => {
    const row = make("tr");
    const known = one.lower !== null;
    const drawn = make("td");
    if (known) drawn.append(interval(one, low, high));
    row.append(
      make("th", { scope: "row" }, one.target),
      make("td", {}, number(one.estimate)),
      make("td", {}, known ? `${number(one.lower)} to ${number(one.upper)}` : one.valid),
      drawn,
    );
    return row;
  }));
  find("estimates-note").textContent = e.reason ?? [
    `Greedy has learned from the ${e.trained_on.toLocaleString()} rewards of the first decisions; all are judged on ${e.judged.toLocaleString()}`,
    `of the ${e.decisions.toLocaleString()} decisions since, of which ${e.waiting.toLocaleString()}`,
    `(${percent(e.waiting / e.decisions)}) wait for their reward. “logged” is the policy that decided.`,
  ].join(" ");
  find("doubts").replaceChildren(...e.warnings.map((text) => make("li", {}, text)));
}

async function showBandits() {
  const bandits = await read("/v1/bandits");
  const select = find("bandit");
  const names = bandits.map((one) => one.name);
  if (names.join("\n") !== [...select.options].map((option) => option.value).join("\n")) {
    const chosen = select.value;
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    if (names.includes(chosen)) select.value = chosen;
  }
  find("empty").hidden = names.length > 0;
  find("report").hidden = names.length === 0;
  return select.value;
}

async function update() {
  clearTimeout(timer);
  try {
    const name = await showBandits();
    if (name) {
      const place = "/v1/bandits/" + encodeURIComponent(name);
      const [statistics, estimates] = await Promise.all([read(place + "/statistics"), read(place + "/estimates")]);
      showStatistics(statistics);
      showEstimates(estimates);
    }
    find("access").hidden = true;
    find("status").textContent = paused ? "paused" : "live";
  } catch (error) {
    find("status").textContent = error instanceof TypeError ? "no connection; trying again" : error.message;
  }
  if (!paused) timer = setTimeout(update, 2000);
}

document.addEventListener("DOMContentLoaded", () => {
  find("bandit").addEventListener("change", update);
  find("pause").addEventListener("click", () => {
    paused = !paused;
    find("pause").setAttribute("aria-pressed", String(paused));
    update();
  });
  find("access").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", find("token").value.trim());
    update();
  });
  update();
});
