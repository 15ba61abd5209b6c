// The page follows one bandit. Each choice begins a new turn: panels are blank until their answers are there, and
// answers that come late for an earlier turn are dropped.

import { ask, explained, find, keep, make } from "./dom.js";
import { fit, prepareCreation, prepareTrial } from "./forms.js";
import { blank, prepare, showAlerts, showArms, showBest, showDrift, showStatistics, showTrend } from "./panels.js";

const PERIOD = 2000;
let turn = new AbortController();
let paused = false;
let facts = { problems: {} }; // the last answers about the bandit that is chosen, and what was refused
const asked = new URLSearchParams(location.hash.slice(1));
let wish = asked.get("bandit"); // which may be yet to come

const place = () => "/v1/bandits/" + encodeURIComponent(find("bandit").value);

function say(text, mood) {
  const status = find("status");
  if (status.textContent !== text) status.textContent = text;
  status.dataset.mood = mood;
}

function trouble(error) {
  if (error.name === "AbortError") return "";
  if (error.status === 401 || error.status === 403) find("access").hidden = false;
  return explained(error);
}

// Ask again and again within one turn; `show` sees only answers of this turn.
async function follow(mine, what, request, show) {
  do {
    if (!document.hidden) {
      try {
        const { path, body } = request();
        const answer = await ask(path, { body, signal: mine.signal });
        if (mine.signal.aborted) return;
        delete facts.problems[what];
        show(answer);
        find("access").hidden = true;
        say(paused ? "paused" : facts.status?.status === "loading" ? "loading" : "live", paused ? "wait" : "good");
        showAlerts(facts);
      } catch (error) {
        if (mine.signal.aborted) return;
        const text = trouble(error);
        if (error.status >= 404) facts.problems[what] = text; // others may have been answered
        else say(text, "bad");
        showAlerts(facts);
      }
    }
    await new Promise((done) => setTimeout(done, PERIOD));
  } while (!paused && !mine.signal.aborted);
}

// Which arm is the best; why that cannot be said is no alarm.
async function best(mine, path, outlook) {
  if (!outlook.count) return showBest(null);
  try {
    const answer = await ask(path + "/verdict", { signal: mine.signal });
    if (!mine.signal.aborted) showBest(answer);
  } catch (error) {
    if (!mine.signal.aborted) showBest(null, explained(error));
  }
}

// Whether the world has changed, for a policy that watches for it.
async function changes(mine, path, outlook) {
  if (!outlook.forgets) {
    facts.drift = showDrift(null);
    return;
  }
  const answer = await ask(path + "/drift", { signal: mine.signal });
  if (mine.signal.aborted) return;
  facts.drift = showDrift(answer);
  if (facts.statistics) showStatistics(facts.statistics, facts.drift);
}

const MISSING = {
  stop: "Assumes nothing.",
  skip: "Right only if lateness has nothing to do with the reward.",
  0: "Right if no reward by then means 0.",
};

function missing() {
  const [value, mature] = find("missing").value.split(",");
  find("missing-note").textContent = MISSING[value];
  return mature === undefined ? { missing: value } : { missing: Number(value), mature: Number(mature) };
}

// A new turn: about another bandit, or (with `only`) for one part of the report, or (null) after a pause.
function begin(only) {
  turn.abort();
  turn = new AbortController();
  if (only !== null) blank(only);
  if (only === undefined) {
    facts = { status: facts.status, problems: {} };
    fit(null);
  }
  if (only === "values") delete facts.trend;
  showAlerts(facts);
  follow(turn, "status", () => ({ path: "/v1/status" }), (s) => { facts.status = s; });
  follow(turn, "bandits", () => ({ path: "/v1/bandits" }), list);
  if (!find("bandit").value) return;
  const path = place();
  follow(turn, "statistics", () => ({ path: path + "/statistics" }), (s) => {
    facts.statistics = showStatistics(s, facts.drift);
    if (facts.outlook) showArms(facts.outlook, s.arm_shares);
  });
  follow(turn, "arms", () => ({ path: path + "/arms" }), (a) => {
    facts.outlook = a;
    fit(a);
    if (a.count || facts.statistics) showArms(a, facts.statistics?.arm_shares ?? []);
    best(turn, path, a);
    changes(turn, path, a).catch((error) => turn.signal.aborted || say(trouble(error), "bad"));
  });
  follow(turn, "trend", () => ({ path: path + "/trend", body: missing() }), (t) => { facts.trend = showTrend(t); });
}

// The address keeps what was chosen, so that it can be sent to others.
function remember() {
  const chosen = new URLSearchParams({ bandit: find("bandit").value, missing: find("missing").value });
  history.replaceState(null, "", "#" + chosen);
  document.title = `${find("bandit").value} · linmed`;
}

function list(bandits) {
  const select = find("bandit");
  const names = bandits.map((one) => one.name);
  find("empty").hidden = names.length > 0;
  find("report").hidden = names.length === 0;
  if (names.join("\n") === [...select.options].map((option) => option.value).join("\n")) return;
  const before = select.value;
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  const next = [wish, before].find((name) => names.includes(name));
  if (next) select.value = next;
  if (select.value !== before) begin();
}

function choose() {
  wish = find("bandit").value;
  remember();
  begin();
}

function choosing(name) {
  find("bandit").append(make("option", { value: name }, name));
  find("bandit").value = name;
  find("empty").hidden = true;
  find("report").hidden = false;
  choose();
}

prepare();
blank();
if ([...find("missing").options].some((option) => option.value === asked.get("missing"))) find("missing").value = asked.get("missing");
find("bandit").addEventListener("change", choose);
find("missing").addEventListener("change", () => { remember(); begin("values"); });
find("pause").addEventListener("click", () => {
  paused = !paused;
  find("pause").setAttribute("aria-pressed", String(paused));
  begin(null);
});
find("access").addEventListener("submit", (event) => {
  event.preventDefault();
  keep(find("token").value.trim());
  begin(null);
});
prepareCreation(choosing, trouble);
prepareTrial(() => ({ path: place(), outlook: facts.outlook }), trouble);
begin(null);
