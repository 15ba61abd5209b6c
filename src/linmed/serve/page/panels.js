// What the report shows, each panel from one answer of the service.

import { Chart } from "./charts.js";
import { bar, clock, compact, draw, find, known, make, number, percent, range, whole } from "./dom.js";

const TARGETS = {
  logged: { label: "as played", style: "logged" },
  greedy: { label: "greedy", style: "greedy" },
  uniform: { label: "uniform", style: "uniform" },
};
const LATE = 0.2;
const FEWEST = 50;

const decisions = { write: compact, unit: "decisions", ticks: true };
const time = { write: clock, unit: "o’clock", ticks: false };
let charts = {};

export function prepare() {
  charts = {
    values: new Chart(find("chart-values"), { across: decisions, height: 280, settled: 0.08 }),
    weights: new Chart(find("chart-weights"), { across: decisions, height: 190, reference: 1, zero: true, top: 3 }),
    time: new Chart(find("chart-time"), { across: time, up: (v) => number(v, 0), height: 190, zero: true }),
    mean: new Chart(find("chart-mean"), { across: time, height: 190, zero: true }),
  };
}

// Nothing of one bandit may be seen under the name of another.
const TEXTS = ["headline", "second", "judged", "sound", "policy", "arms-note", "arms-more",
  "best-headline", "best-sentence", "best-note"];
const LISTS = ["numbers", "doubts", "tried"];
const ABOUT = { values: ["title-verdict", "title-values", "title-now", "title-weights"], arms: ["title-arms"], best: ["title-best"],
  statistics: ["numbers", "title-time", "title-mean"] };

export function blank(only = null) {
  for (const [part, ids] of Object.entries(ABOUT)) if (!only || only === part) busy(ids, true);
  const trend = ["headline", "second", "judged", "sound"];
  for (const id of TEXTS) if (!only || trend.includes(id)) find(id).textContent = "";
  for (const id of LISTS) if (!only || id === "doubts") find(id).replaceChildren();
  for (const id of ["values", "arms"]) if (!only || id === only) find(id).tBodies[0].replaceChildren();
  for (const id of ["values", "weights"]) charts[id].blank();
  if (!only) for (const id of ["time", "mean"]) charts[id].blank();
  find("verdict").dataset.mood = "wait";
  if (!only) find("drift").hidden = true;
}

function busy(ids, yes) {
  for (const id of ids) find(id).closest("[data-panel]").setAttribute("aria-busy", yes);
}

// Statistics

export function showStatistics(s, drift = null) {
  busy(ABOUT.statistics, false);
  const over = s.over_time;
  find("numbers").replaceChildren(
    tile("decisions", whole(s.decisions), spark(over.map((p) => p.decisions))),
    tile("rewards", whole(s.rewards), spark(over.map((p) => p.rewards))),
    tile("pending rewards", whole(s.pending)),
    tile("mean reward", number(s.mean_reward), spark(over.map((p) => p.mean_reward))),
    tile("exploration rate", percent(s.exploration_rate), spark(over.map((p) => p.exploration_rate))),
    ...extras(s),
  );
  const lines = (...names) => names.map(([name, label], i) => ({
    label, style: i ? "two" : "one", points: over.map((p) => ({ x: p.time, y: p[name] })),
  }));
  const changes = (drift?.alarms ?? []).filter((one) => known(one.time)).map((one) => 1e6 * one.time);
  const changed = changes.length ? ` Bands stand where an alarm said that the world had changed: ${changes.map(clock).join(", ")}.` : "";
  const total = (name) => whole(over.reduce((sum, p) => sum + p[name], 0));
  if (over.length) {
    charts.time.show(lines(["decisions", "decisions"], ["rewards", "rewards"]),
      `Over the recent decisions: ${total("decisions")} decisions and ${total("rewards")} rewards.${changed}`, changes);
    charts.mean.show(lines(["mean_reward", "mean reward"], ["exploration_rate", "exploration"]),
      `Mean reward ${number(s.mean_reward)} in all; ${percent(s.exploration_rate)} of the recent decisions explored.${changed}`, changes);
  }
  const since = s.policy_versions[s.policy_versions.length - 1].created;
  find("policy").textContent = `${s.policy}, version ${s.policy_version}, since ${new Date(since / 1000).toLocaleString("en-GB")}`;
  return s;
}

// What a bandit may have: deadlines, a control group, shadow policies.
function extras({ deadlines, control, shadow }) {
  const found = [];
  if (deadlines) found.push(tile("no reward by the deadline", whole(deadlines.missing)), tile("rewards after it", whole(deadlines.late)));
  if (control) found.push(tile(`mean reward, control group (${percent(control.share, 0)})`, number(control.control.mean_reward)),
    tile("mean reward, policy", number(control.policy.mean_reward)));
  if (shadow.length) found.push(tile("shadow policies", shadow.join(", ")));
  return found;
}

const tile = (name, value, line = null) => make("div", {}, make("dt", {}, name), make("dd", {}, value), line);

function spark(values) {
  const seen = values.map((v, i) => [i, v]).filter(([, v]) => known(v));
  if (seen.length < 2) return null;
  const [low, high] = [Math.min(...seen.map(([, v]) => v)), Math.max(...seen.map(([, v]) => v))];
  const d = seen.map(([i, v]) => `${i} ${(20 - (18 * (v - low)) / (high - low || 1)).toFixed(1)}`).join("L");
  const svg = draw("svg", { class: "spark", viewBox: `0 0 ${values.length - 1} 22`, preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(draw("path", { d: "M" + d }));
  return svg;
}

// The trend: values with their sequences, and the mean weight

export function showTrend(t) {
  busy(ABOUT.values, false);
  const found = Object.fromEntries(t.values.map((one) => [one.target, one]));
  verdict(t, found);
  const lines = Object.entries(TARGETS).filter(([name]) => found[name]).map(([name, how]) => ({
    ...how, points: found[name].curve.map((p) => ({ x: p.n, y: p.estimate, low: p.lower, high: p.upper })),
  }));
  if (!lines.length) charts.values.blank("Nothing to draw yet.");
  else charts.values.show(lines, t.values.map((one) => `${TARGETS[one.target].label}: ${interval(one)}`).join("; ") + ".");
  if (lines.length) find("legend-values").replaceChildren(...lines.flatMap((one) => [make("span", { class: "key " + one.style }), one.label + " "]));
  find("values").hidden = !lines.length;
  find("values").tBodies[0].replaceChildren(...Object.entries(TARGETS).filter(([name]) => found[name]).map(([name, how]) =>
    make("tr", {},
      make("th", { scope: "row" }, make("span", { class: "key " + how.style }), how.label),
      make("td", {}, make("strong", {}, number(found[name].estimate)), known(found[name].lower) ? make("span", { class: "range" }, range(found[name])) : null))));
  find("judged").textContent = t.reason ? "" : [
    `From ${whole(t.judged)} of ${whole(t.decisions)} decisions;`,
    `${whole(t.waiting)} (${percent(t.waiting / t.decisions)}) wait for their reward.`,
    found.greedy ? "Greedy plays the best estimate of the decisions before." : "",
  ].join(" ");
  find("doubts").replaceChildren(...[...t.notes, ...t.warnings].map((text) => make("li", {}, text)));
  weights(t.weights);
  return t;
}

const interval = (one) => (known(one.lower) ? range(one) : number(one.estimate));

// Of two targets the one that earns more, where the sequence of their difference tells.
function compared(t, target, baseline) {
  const one = t.differences.find((d) => d.target === target && d.baseline === baseline);
  if (!one || !known(one.lower)) return null;
  return one.lower > 0 ? "more" : one.upper < 0 ? "less" : "open";
}

function verdict(t, found) {
  const against = (name) => `${interval(found[name])} against ${interval(found.uniform)}`;
  const policy = compared(t, "logged", "uniform");
  const greedy = compared(t, "greedy", "uniform");
  let [mood, text] = ["wait", "Not known yet."];
  if (t.weights.refuted) [mood, text] = ["bad", "Nothing can be said: the log is not sound."];
  else if (policy === "more") [mood, text] = ["good", `The policy earned more than uniform play would have: ${against("logged")} a decision.`];
  else if (policy === "less") [mood, text] = ["bad", `The policy earned less than uniform play would have: ${against("logged")} a decision.`];
  else if (greedy === "more") [mood, text] = ["good", `Greedy play would have earned more than uniform play: ${against("greedy")} a decision.`];
  else if (policy === "open") text = `Not decided yet between the policy and uniform play: ${against("logged")} a decision.`;
  find("verdict").dataset.mood = mood;
  find("headline").textContent = text;
  const gain = t.differences.find((d) => d.target === "greedy" && d.baseline === "logged");
  find("second").textContent = {
    more: () => `Always playing the best estimate would have earned more still, by ${range(gain)}.`,
    less: () => `Always playing the best estimate (greedy) would have earned less, by ${number(-gain.upper)} to ${number(-gain.lower)}: exploring paid.`,
    open: () => `Whether always playing the best estimate (greedy) would have earned more is not decided: the difference lies between ${number(gain.lower)} and ${number(gain.upper)}.`,
  }[compared(t, "greedy", "logged")]?.() ?? why(t);
}

const sentence = (text) => text && text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");

// Why nothing can be said.
function why(t) {
  if (t.reason && /no rewards yet/.test(t.reason) && t.weights.curve.length && find("missing").value === "stop") {
    return "The first decision still has no reward. Choose below what becomes of decisions without one.";
  }
  return sentence(t.reason ?? t.notes.join("; "));
}

export const sound = (w) => {
  const last = w.curve[w.curve.length - 1];
  if (!last) return { mood: "wait", text: "No decision has been taken yet." };
  if (w.overplayed) return { mood: "bad", text: `No: arm ${w.overplayed.arm} was played ${number(w.overplayed.times, 2)} times as often as its logged probabilities say. No interval holds.` };
  if (w.refuted) return { mood: "bad", text: `No: the mean weight is ${number(last.estimate)}, more than chance allows. The logged probabilities are wrong, and no interval holds.` };
  const less = last.estimate < 0.9 ? " Below 1 is no evidence: where arms became improbable, the rare decisions that make up for it are yet to come." : "";
  return { mood: "good", text: `Nothing speaks against it: the mean weight is ${number(last.estimate)}, its lower bound ${number(last.lower)}.${less}` };
};

function weights(w) {
  const { mood, text } = sound(w);
  find("sound").textContent = text;
  find("sound").dataset.mood = mood;
  const points = w.curve.map((p) => ({ x: p.n, y: p.estimate, low: p.lower, high: null }));
  if (!points.length) charts.weights.blank("Nothing to draw yet.");
  else charts.weights.show([{ label: "mean weight", style: "one", points }], text);
}

// Arms

export function showArms(a, shares) {
  busy(ABOUT.arms, false);
  const body = find("arms").tBodies[0];
  const policy = make("strong", {}, a.policy);
  contextNames = a.context_described;
  if (!a.count) {
    find("arms-note").replaceChildren(policy, ": arms come with each request, so these are places in them; of the recent decisions.");
    body.replaceChildren(...shares.map((one) => row({ id: one.arm, features: [], share: one.share }, [0, 1])));
    find("arms-more").textContent = "";
    find("arms-axis").textContent = "estimate";
    return a;
  }
  const told = a.context_size === 0 ? "" : a.context
    ? ` for the mean of the recent contexts, (${written(a.context, a.context_described)})`
    : "; estimates need a context, and none has come yet";
  const how = known(a.arms[0].lower) ? "; intervals are the policy’s own confidence set, ± √β‖a‖" : "";
  find("arms-note").replaceChildren(policy, ` after ${whole(a.rewards)} rewards${told}${how}. Shares are of the recent decisions.`);
  const ends = a.arms.flatMap((one) => [one.lower ?? one.estimate, one.upper ?? one.estimate]).filter(known);
  const [low, high] = a.reward_range ?? [-Infinity, Infinity];
  const axis = [Math.max(low, Math.min(0, ...ends)), Math.min(high, Math.max(0, ...ends))];
  find("arms-axis").textContent = `estimate, drawn from ${number(axis[0], 2)} to ${number(axis[1], 2)}`;
  body.replaceChildren(...a.arms.slice(0, 25).map((one) => row(one, axis)));
  find("arms-more").textContent = `${whole(a.count)} in the catalogue` + (a.count > 25 ? ", of which the 25 with the largest estimates are shown." : ".");
  return a;
}

let contextNames = null; // of the bandit on show, whose estimates come before its verdict

// Which arm is the best: `v` is null where arms come with each request, or `problem` says why nothing is known.

export function showBest(v, problem = "Arms come with each request: POST them to /verdict to have them compared.") {
  busy(ABOUT.best, false);
  find("best").dataset.mood = v?.decided ? "good" : "wait";
  if (!v) {
    for (const id of ["best-headline", "best-note"]) find(id).textContent = "";
    find("best-sentence").textContent = sentence(problem.replace(/^policy: /, ""));
    return;
  }
  const sure = `${+(100 * (1 - v.delta)).toPrecision(4)} %`;
  const state = v.decided ? `decided at ${sure}` : "not yet decided";
  find("best-headline").textContent = `Still possible: ${whole(v.possible)} of ${whole(v.count)}; best so far ${v.best}; ${state}.`;
  find("best-sentence").textContent = v.sentence;
  const about = v.context ? ` For the mean of the recent contexts, (${written(v.context, contextNames)}).` : "";
  find("best-note").textContent = v.proved ? `If ${v.assumes}. Look as often as you like.${about}` : `No proof: ${v.doubt}.${about}`;
}

// Whether the world has changed: `d` is null for a policy that does not watch for that.

export function showDrift(d) {
  find("drift").hidden = !d;
  if (!d) return null;
  const last = d.alarms[d.alarms.length - 1];
  find("drift").dataset.mood = last ? "warn" : "good";
  find("drift-headline").textContent = last
    ? `Changed ${d.alarm_count === 1 ? "once" : `${whole(d.alarm_count)} times`}, last noticed at reward ${whole(last.reward)}${known(last.time) ? `, ${new Date(1000 * last.time).toLocaleString("en-GB")}` : ""}.`
    : `No change in ${whole(d.count)} rewards.`;
  find("drift-sentence").textContent = d.sentence;
  find("memories").tBodies[0].replaceChildren(...d.weights.map((one) => make("tr", {},
    make("th", { scope: "row" }, one.half_life),
    make("td", { class: "drawn" }, bar(`weight of ${one.half_life}: ${percent(one.weight)}`, [0, 1], { low: 0, high: one.weight, style: "share" }),
      make("span", {}, percent(one.weight))))));
  find("drift-note").textContent = `A false alarm ever: at most ${percent(d.alpha, 0)}, if ${d.assumes}.`;
  return d;
}

const written = (context, described) => (described ?? context.map((x) => number(x, 2))).join(", ");

function row(one, axis) {
  const features = one.described ? one.described.join(", ") : one.features.map((x) => compact(x)).join(", ");
  const name = make("th", { scope: "row" }, make("span", { class: "id" }, one.id));
  if (features) name.append(make("span", { class: "features", title: features }, features));
  const believed = make("td", { class: "drawn" });
  if (known(one.estimate)) {
    const told = known(one.lower) ? ` (${range(one, 2)})` : "";
    const [low, high] = [one.lower ?? one.estimate, one.upper ?? one.estimate];
    believed.append(bar(`${one.id}: ${number(one.estimate)}${told}`, axis, { low, high, mark: one.estimate, style: "logged" }));
    believed.append(make("strong", {}, number(one.estimate)), make("span", {}, told));
  } else believed.append("–");
  const part = bar(`share of ${one.id}: ${percent(one.share)}`, [0, 1], { low: 0, high: one.share, style: "share" });
  return make("tr", {}, name, believed, make("td", { class: "drawn" }, part, make("span", {}, percent(one.share))));
}

// Alerts: empty when all is well

export function showAlerts({ status, statistics, trend, problems }) {
  const found = Object.entries(problems).map(([what, text]) => ["warn", `${what}: ${text}`]);
  if (status?.status === "loading") found.push(["wait", "Some bandits are still being loaded from the log."]);
  if (status?.status === "not ready") found.push(["bad", "The service is not ready: its database does not answer, or it is stopping."]);
  if (statistics?.archived) found.push(["wait", "This bandit is archived: it takes no more decisions."]);
  if (statistics && statistics.decisions >= FEWEST && statistics.pending > LATE * statistics.decisions) {
    found.push(["warn", `${percent(statistics.pending / statistics.decisions, 0)} of the decisions have no reward: are they still to come, or lost?`]);
  }
  if (trend && sound(trend.weights).mood === "bad") found.push(["bad", `The log is not sound. ${sound(trend.weights).text}`]);
  if (trend && trend.decisions >= FEWEST && trend.judged && trend.judged < (1 - LATE) * trend.decisions) {
    found.push(["warn", `Only ${percent(trend.judged / trend.decisions, 0)} of the decisions are judged: choose below what becomes of those without a reward.`]);
  }
  if (trend?.warnings.length) {
    const many = trend.warnings.length === 1 ? "One doubt" : `${trend.warnings.length} doubts`;
    found.push(["warn", `${many} about the estimates: `, make("a", { href: "#doubts" }, "read")]);
  }
  const list = find("alerts");
  const text = JSON.stringify(found.map(([mood, said]) => [mood, said]));
  if (list.dataset.shown === text) return; // do not read them out again
  list.dataset.shown = text;
  list.replaceChildren(...found.map(([mood, ...said]) => make("li", { "data-mood": mood }, ...said)));
}
