"""What Vowpal Wabbit and its estimators say of a log: `python -m peers.vw_evaluation REQUEST ANSWER`.

A request is {"task": "log", "rows": n} for a log of `vw --cb_explore_adf`, or {"task": "values", "lines": of
a log, "format": "dsjson" or "vw", "targets", "range"} for the estimates.
"""

import json
import platform
import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vowpalwabbit
from estimators.bandits import gaussian, ips, snips
from estimators.utils.ds_parse import json_cooked

ARMS = 4
LOGGING = "--cb_explore_adf --squarecb --gamma_scale 4 -q ui --random_seed 7"
LEARNER = "--cb_explore_adf --epsilon 0.3"
UNIFORM = "--cb_explore_adf --epsilon 1.0 --testonly"


def generate(rows: int) -> dict[str, Any]:
    """`vw` decides, learns and decides again; the log as decision services write it, and as VW text.

    Actions are drawn from its predictions, as VW leaves to its callers. Rewards lie in [−1, 1].
    """
    vw = vowpalwabbit.Workspace(f"{LOGGING} --quiet")
    draw = random.Random(5)
    events, examples = [], []
    for t in range(rows):
        user = {f"u{i}": round(draw.uniform(-1, 1), 3) for i in range(2)}
        items = [{f"i{i}": round(draw.uniform(-1, 1), 3) for i in range(2)} for _ in range(ARMS)]
        words = [" ".join(f"{name}:{value}" for name, value in each.items()) for each in (user, *items)]
        text = [f"shared |user {words[0]}", *(f"|item {word}" for word in words[1:])]
        chances = list(_predict(vw, "\n".join(text)))
        arm = draw.choices(range(ARMS), chances)[0]
        mean = 0.3 + 0.5 * user["u0"] * items[arm]["i0"] - 0.2 * items[arm]["i1"]
        reward = 1.0 if draw.random() < mean else -0.5 if draw.random() < 0.5 else 0.0
        text[1 + arm] = f"0:{-reward}:{chances[arm]!r} {text[1 + arm]}"
        examples.append("\n".join(text) + "\n")
        _learn(vw, examples[-1].strip())
        order = [arm, *sorted((a for a in range(ARMS) if a != arm), key=lambda a, p=chances: -p[a])]
        event = {"_label_cost": -reward, "_label_probability": chances[arm]}
        event |= {"_label_Action": arm + 1, "_labelIndex": arm}
        event |= {"Timestamp": f"2024-01-01T{t // 3600:02d}:{t // 60 % 60:02d}:{t % 60:02d}.0000000Z"}
        event |= {"Version": "1", "EventId": f"event-{t}", "a": [a + 1 for a in order]}
        event |= {"c": {"user": user, "_multi": [{"item": item} for item in items]}}
        event |= {"p": [chances[a] for a in order], "VWState": {"m": f"model/{t}"}}
        events.append(json.dumps(event, separators=(",", ":")))
    vw.finish()
    return {"dsjson": events, "vw": "".join(f"{example}\n" for example in examples).splitlines()}


def _predict(vw: Any, text: str) -> Any:
    examples = vw.parse(text, vowpalwabbit.LabelType.CONTEXTUAL_BANDIT)
    chances = vw.predict(examples)
    vw.finish_example(examples)
    return chances


def _learn(vw: Any, text: str) -> None:
    examples = vw.parse(text, vowpalwabbit.LabelType.CONTEXTUAL_BANDIT)
    vw.learn(examples)
    vw.finish_example(examples)


def read(lines: list[str], form: str) -> list[dict[str, Any] | None]:
    """Every decision's arm, number of arms, cost and probability; None where there is no cost.

    Events are parsed by vw-estimators, which look at lines that begin with a cost.
    """
    found: list[dict[str, Any] | None] = []
    for line in lines if form == "dsjson" else ():
        cooked = json_cooked(line.encode()) if line.startswith('{"_label_cost":') else None
        found.append(
            cooked
            and {
                "arm": cooked["a"] - 1,
                "arms": cooked["num_a"],
                "cost": float(cooked["cost"]),
                "p": cooked["p"],
            }
        )
    for block in _examples(lines, form) if form == "vw" else ():
        actions = [line for line in block.split("\n") if not line.startswith("shared")]
        arm = next(i for i, action in enumerate(actions) if not action.startswith("|"))
        _, cost, chance = map(float, actions[arm].split()[0].split(":"))
        found.append({"arm": arm, "arms": len(actions), "cost": cost, "p": chance})
    return found


def values(request: dict[str, Any]) -> dict[str, Any]:
    """Every estimator's number for every target, by our names, and VW's own predictions as one more."""
    lines, form = request["lines"], request["format"]
    decisions = read(lines, form)
    targets = dict(request["targets"])
    learner = f"vw {LEARNER}"
    targets[learner] = _probabilities(lines, form)
    numbers: dict[str, dict[str, Any]] = {}
    for name, target in targets.items():
        points = {"ipw": ips.Estimator(), "snipw": snips.Estimator()}
        bounds = {"normal": gaussian.Interval()}
        for one in (*points.values(), *bounds.values()):
            for decision, chances in zip(decisions, target):  # noqa: B905
                if decision is not None:
                    one.add_example(decision["p"], -decision["cost"], chances[decision["arm"]])
        numbers[name] = {label: one.get() for label, one in points.items()}
        numbers[name] |= {label: one.get(0.05) for label, one in bounds.items()}
    numbers["uniform"]["ipw, vw"] = _loss(lines, form, UNIFORM, decisions)
    numbers[learner]["ipw, vw"] = _loss(lines, form, LEARNER, decisions)
    numbers["arm:0"]["ipw, vw"] = _evaluated(decisions)
    return {"numbers": numbers, "targets": {learner: targets[learner]}}


def _examples(lines: list[str], form: str) -> list[str]:
    return lines if form == "dsjson" else "\n".join(lines).strip().split("\n\n")


def _probabilities(lines: list[str], form: str) -> list[list[float]]:
    """What a learner would have played, before it learns from each decision.

    VW's probabilities are single-precision numbers; divided by their sum they are a distribution.
    """
    vw = vowpalwabbit.Workspace(f"{LEARNER} --quiet" + (" --dsjson" if form == "dsjson" else ""))
    found = []
    for text in _examples(lines, form):
        chances = _predict(vw, text)
        found.append([chance / sum(chances) for chance in chances])
        _learn(vw, text)
    vw.finish()
    return found


def _loss(lines: list[str], form: str, policy: str, decisions: list[Any]) -> float:
    """−1 × the average loss over the decisions with a cost, as `vw` computes it of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_text("\n".join(lines) + "\n\n")
        vw = vowpalwabbit.Workspace(
            f"{policy} --quiet -d {path}" + (" --dsjson" if form == "dsjson" else ""), enable_logging=False
        )
        total = vw.get_sum_loss()
        vw.finish()
    return -total / sum(decision is not None for decision in decisions)


def _evaluated(decisions: list[Any]) -> float:
    """`vw --cb K --eval`: the first action's value. A line names the action to be judged, then the label."""
    known = [decision for decision in decisions if decision is not None]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_text("".join(f"1 {one['arm'] + 1}:{one['cost']}:{one['p']!r} | x\n" for one in known))
        vw = vowpalwabbit.Workspace(f"--cb {known[0]['arms']} --eval --cb_type ips --quiet -d {path}")
        total = vw.get_sum_loss()
        vw.finish()
    return -total / len(known)


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    answer = generate(asked["rows"]) if asked["task"] == "log" else values(asked)
    answer["versions"] = {name: version(name) for name in ("vowpalwabbit", "vw-estimators")}
    answer["versions"]["python"] = platform.python_version()
    Path(sys.argv[2]).write_text(json.dumps(answer))
