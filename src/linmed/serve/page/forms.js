// What the page does besides reading: create a bandit, and try a decision.

import { ask, bar, find, make, number, percent } from "./dom.js";

const POLICIES = {
  "LinMED": { policy: "LinMED" },
  "Forgetful": { policy: "Forgetful", base: { policy: "LinMED" } },
  "LinMED-50": { policy: "LinMED", alpha_emp: 0.5, alpha_opt: 0.25 },
  "LinTS": { policy: "LinTS" },
  "SquareCB": { policy: "SquareCB" },
  "EpsilonGreedy": { policy: "EpsilonGreedy" },
  "Uniform": { policy: "Uniform" },
};

// "1, 2.5; 3" → [1, 2.5, 3]; what is no number is named.
function numbers(text, what) {
  const words = text.split(/[\s,;]+/).filter((word) => word);
  const wrong = words.find((word) => !Number.isFinite(Number(word)));
  if (wrong !== undefined) throw new Error(`${what}: “${wrong}” is not a number`);
  return words.map(Number);
}

const lines = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line);

function catalogue(text) {
  const found = lines(text).map((line) => {
    const at = line.search(/[,;\t]/);
    if (at < 1) throw new Error(`catalogue: “${line}” has no numbers; a line is “id, x1, x2, …”`);
    return [line.slice(0, at).trim(), numbers(line.slice(at + 1), "catalogue")];
  });
  const other = found.find(([, row]) => row.length !== found[0][1].length);
  if (other) throw new Error(`catalogue: “${other[0]}” has ${other[1].length} numbers, “${found[0][0]}” has ${found[0][1].length}`);
  return found.length ? { ids: found.map(([id]) => id), features: found.map(([, row]) => row) } : null;
}

const noise = (given) => given === "" ? { sigma: "unknown", ridge: "learned" } : { sigma: Number(given) };

// What is told of the noise goes to the policy that believes it, which may be inside another.
function told(policy, given) {
  return policy.base ? { ...policy, base: { ...policy.base, ...noise(given) } } : { ...policy, ...noise(given) };
}

function described() {
  const listed = catalogue(find("new-catalogue").value);
  const context = Number(find("new-context").value);
  const outer = find("new-map").value === "outer" && context > 0;
  const width = listed ? listed.features[0].length : 0;
  const body = {
    name: find("new-name").value.trim(),
    dim: listed ? (outer ? width * context : width + context) : Number(find("new-dim").value),
    policy: told(POLICIES[find("new-policy").value], find("new-sigma").value),
    map: outer ? "outer" : "plain",
  };
  if (listed) body.catalogue = listed;
  const [low, high] = [find("new-low").value, find("new-high").value];
  if (low !== "" && high !== "") body.reward_range = [Number(low), Number(high)];
  return body;
}

// `created` is told the name of a new bandit, `read` what went wrong.
export function prepareCreation(created, read) {
  const dialog = find("create");
  const open = () => dialog.showModal();
  find("open-create").addEventListener("click", open);
  find("open-create-first").addEventListener("click", open);
  find("close-create").addEventListener("click", () => dialog.close());
  find("new-catalogue").addEventListener("input", () => { find("new-dim").disabled = find("new-catalogue").value.trim() !== ""; });
  find("new").addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = find("new-problem");
    try {
      const body = described();
      problem.textContent = "Creating …";
      const made = await ask("/v1/bandits", { body });
      problem.textContent = "";
      dialog.close();
      find("new").reset();
      find("new-dim").disabled = false;
      created(made.name);
    } catch (error) {
      problem.textContent = read(error);
    }
  });
}

// Trying a decision

let shape = null;

// The form asks for what this bandit needs.
export function fit(outlook) {
  const next = outlook ? JSON.stringify([outlook.count > 0, outlook.context_size]) : null;
  if (next === shape) return;
  shape = next;
  const listed = Boolean(outlook?.count);
  find("try-ids").hidden = !listed;
  find("try-features").hidden = !outlook || listed;
  find("try-user").hidden = !outlook?.context_size;
  find("try").elements[3].disabled = !outlook;
  find("try").reset();
  find("try-problem").textContent = "";
  if (outlook?.context_fields) {
    find("try-user").firstElementChild.textContent = `Context: JSON with the fields ${outlook.context_fields.join(", ")}`;
    find("try-context").value = "{}";
  } else if (outlook?.context_size) {
    find("try-user").firstElementChild.textContent = `Context: ${outlook.context_size} numbers, with commas`;
    find("try-context").value = (outlook.context ?? Array(outlook.context_size).fill(0)).map((x) => +x.toFixed(3)).join(", ");
  }
}

// Numbers, or an object where the bandit has features: the service says what is wrong with its fields.
function context(text) {
  if (!text.trim().startsWith("{")) return numbers(text, "context");
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("context: this is no JSON; an object is {\"field\": value, …}");
  }
}

function wanted() {
  const body = {};
  const ids = find("try-arm-ids").value.split(",").map((id) => id.trim()).filter((id) => id);
  if (!find("try-ids").hidden && ids.length) body.arm_ids = ids;
  if (!find("try-features").hidden) body.arms = lines(find("try-arms").value).map((line) => numbers(line, "arms"));
  if (!find("try-user").hidden) body.context = context(find("try-context").value);
  return body;
}

// `chosen` gives the bandit's path and its outlook; an answer for another one is dropped.
export function prepareTrial(chosen, read) {
  find("try").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { path, outlook } = chosen();
    try {
      const body = wanted();
      const decision = await ask(path + "/decide", { body });
      if (chosen().path !== path) return;
      find("try-problem").textContent = "";
      showDecision(path, outlook, body, decision, chosen, read);
    } catch (error) {
      if (chosen().path === path) find("try-problem").textContent = read(error);
    }
  });
}

function showDecision(path, outlook, body, decision, chosen, read) {
  const listed = Object.fromEntries(outlook.arms.map((one) => [one.place, one.id]));
  const name = decision.arm_id ?? `arm ${decision.arm}`;
  const said = make("p", {}, "Decided for ", make("strong", {}, name), decision.fallback
    ? ", the best item known, because the one that was proposed was not accepted; such a decision has no probability."
    : `, which had the probability ${percent(decision.probability)}.`);
  const found = [said];
  if (decision.probabilities) {
    const rows = decision.probabilities.map((p, i) => ({ p, i, id: i === decision.arm ? name : body.arm_ids?.[i] ?? listed[i] ?? `arm ${i}` }));
    found.push(probabilities(rows, decision.arm));
  }
  const [low, high] = outlook.reward_range ?? [0, 1];
  const result = make("p", { role: "status" });
  const give = (value) => make("button", { type: "button" }, `Reward ${value}`);
  const buttons = [low, high].map((value) => [give(value), value]);
  for (const [button, value] of buttons) {
    button.addEventListener("click", async () => {
      try {
        await ask(path + "/reward", { body: { decision_id: decision.decision_id, reward: value } });
        result.textContent = `The reward ${value} is in the log.`;
        for (const [other] of buttons) other.disabled = true;
      } catch (error) {
        result.textContent = read(error);
      }
    });
  }
  found.push(make("p", { class: "pair" }, ...buttons.map(([button]) => button)), result);
  if (chosen().path === path) find("tried").replaceChildren(...found);
}

function probabilities(rows, arm) {
  const most = [...rows].sort((a, b) => b.p - a.p).slice(0, 12);
  const body = make("tbody", {}, ...most.map((one) => make("tr", { class: one.i === arm ? "drawn-arm" : null },
    make("th", { scope: "row" }, one.id),
    make("td", { class: "drawn" }, bar(`${one.id}: ${percent(one.p)}`, [0, 1], { low: 0, high: one.p, style: "share" })),
    make("td", {}, one.p < 0.0005 && one.p > 0 ? `${number(100 * one.p, 1)} %` : percent(one.p)))));
  const more = rows.length > most.length ? `, the ${most.length} largest of ${rows.length}` : "";
  return make("table", { id: "probabilities" }, make("caption", {}, `Probabilities${more}`), body);
}
