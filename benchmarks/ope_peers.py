"""Logs evaluated by linmed and by other packages' own code: `python benchmarks/ope_peers.py`.

Our logs are exported to the Open Bandit Pipeline's dictionary and to DSJSON and evaluated by obp, by
vw-estimators and by Vowpal Wabbit; a log of obp's synthetic data set and one that `vw --cb_explore_adf`
wrote are read and evaluated by us. Every package runs in an environment of its own: one that is made under
.bench, or one that is named (--obp-python, --vw-python).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from environments import PEERS, Peer, interpreter, prepare
from peers.cases import Case, comparisons, export, ours, past_model, rewarded, save, tolerance
from report import table

from linmed import Agent, Greedy, LinMED, Uniform
from linmed.ope import DecisionLog

HERE = Path(__file__).parent
OBP = next(peer for peer in PEERS if peer.module == "obp")
VW = Peer("vw-estimators", ("numpy", "vowpalwabbit", "vw-estimators"))
ARMS, DIM = 4, 3
PARAMETERS = {"clipped": 1.2, "switch": 1.2, "dros": 2.0}
WAITING = 20  # every so many decisions have no reward yet
Made = tuple[str, Case, DecisionLog | None, dict[str, Any] | None]
"""The case's name; for an exported log also that log and its targets as `evaluate` takes them."""


def ask(python: Path, module: str, **request: Any) -> dict[str, Any]:
    """One answer of a peer's process."""
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        question.write_text(json.dumps(request))
        command = [str(python), "-W", "ignore", "-m", f"peers.{module}", str(question), str(answer)]
        subprocess.run(command, cwd=HERE, check=True, stdout=sys.stderr)
        found: dict[str, Any] = json.loads(answer.read_text())
    return found


def played(policy: Any, rows: int, folder: Path, seed: int) -> tuple[DecisionLog, Agent]:
    """The log of an agent on Bernoulli rewards, and that agent."""
    rng = np.random.default_rng(seed)
    theta = np.array([0.2, 0.5, 0.8])
    with Agent(policy, dim=DIM, seed=seed, log=folder) as agent:
        for t in range(rows):
            decision = agent.decide(rng.uniform(0, 0.6, size=(ARMS, DIM)))
            if (t + 1) % WAITING or not isinstance(policy, LinMED):
                agent.learn(decision, float(rng.random() < decision.features @ theta))
    return DecisionLog.open(folder), agent


def exported(rows: int, folder: Path, python: Path, form: str) -> Iterator[Made]:
    """A log of LinMED given to another package; the targets are fixed, and another agent's policy."""
    log, _ = played(LinMED(sigma=0.5, alpha_emp=0.5), rows, folder / "log", seed=10)
    _, other = played(LinMED(sigma=0.5, alpha_emp=0.5), 50, folder / "other", seed=2)
    arms = np.array(log.table(["arms"])["arms"].to_pylist())
    targets = {
        "uniform": np.full(arms.shape[:2], 1 / ARMS),
        "arm:0": np.repeat(np.eye(ARMS)[:1], len(arms), axis=0),
        "another agent": np.array([other.probabilities(each) for each in arms]),
    }
    named = {"uniform": "uniform", "arm:0": "arm:0", "another agent": other}
    if form == "obp":
        # Positions as in a recommendation's slots, so that they take part.
        position = pa.array(np.arange(rows) % 3)
        log = DecisionLog.from_table(log.table().append_column("position", position))
        known = rewarded(log)
        chances = {name: matrix[known].tolist() for name, matrix in targets.items()}
        case = judged_by_obp(python, export(log, form), chances, past_model(log))
    else:
        chances = {name: matrix.tolist() for name, matrix in targets.items()}
        case = judged_by_vw(python, export(log, form), form, chances, (0.0, 1.0))
    yield f"linmed-to-{form}", case | {"exported": True}, log, named


def replayed(rows: int, folder: Path, python: Path) -> Iterator[Made]:
    """A uniform log on which a greedy policy is replayed: what it would play is computed round by round."""
    log, _ = played(Uniform(), rows, folder / "uniform", seed=3)
    arms = np.array(log.table(["arms"])["arms"].to_pylist())
    rule = Agent(Greedy(), dim=DIM, seed=0)
    choices = np.empty(arms.shape[:2])
    columns = (log.table([name])[name].to_pylist() for name in ("arm", "reward"))
    for t, (arm, reward) in enumerate(zip(*columns, strict=True)):
        choices[t] = rule.probabilities(arms[t])
        if choices[t, arm] == 1:
            rule.observe(arms[t, arm], reward)
    uniform = {"uniform": np.full(choices.shape, 1 / ARMS).tolist()}
    case = judged_by_obp(
        python, export(log, "obp"), uniform, past_model(log), {"greedy, learning": choices.tolist()}
    )
    yield "linmed-to-obp-replay", case | {"exported": True}, log, {"uniform": "uniform"}


def read_from_obp(rows: int, python: Path) -> Iterator[Made]:
    """A log of obp's synthetic data set."""
    feedback = ask(python, "obp_evaluation", task="log", rows=rows)["log"]
    arms = feedback["n_actions"]
    expected = np.array(feedback.pop("expected_reward"))
    soft = np.exp(2 * expected) / np.exp(2 * expected).sum(axis=1, keepdims=True)
    targets = {
        "uniform": np.full((rows, arms), 1 / arms).tolist(),
        "arm:0": np.repeat(np.eye(arms)[:1], rows, axis=0).tolist(),
        "softmax of the truth": soft.tolist(),
    }
    arrays = {key: np.asarray(value) if isinstance(value, list) else value for key, value in feedback.items()}
    model = past_model(DecisionLog.from_obp(arrays))
    yield "obp-to-linmed", judged_by_obp(python, feedback, targets, model), None, None


def read_from_vw(rows: int, python: Path) -> Iterator[Made]:
    """A log that `vw --cb_explore_adf` wrote, as DSJSON and as text."""
    logs = ask(python, "vw_evaluation", task="log", rows=rows)
    arms = len(json.loads(logs["dsjson"][0])["a"])
    targets = {
        "uniform": np.full((rows, arms), 1 / arms).tolist(),
        "arm:0": np.repeat(np.eye(arms)[:1], rows, axis=0).tolist(),
    }
    for form in ("dsjson", "vw"):
        case = judged_by_vw(python, logs[form], form, targets, (-1.0, 1.0))
        yield f"vw-{form}-to-linmed", case, None, None


def judged_by_obp(
    python: Path, log: Any, targets: dict[str, Any], model: np.ndarray, replay: dict[str, Any] | None = None
) -> Case:
    """The case of obp's numbers."""
    answer = ask(
        python, "obp_evaluation",
        task="values", log=log, targets=targets, model=model.tolist(), parameters=PARAMETERS,
        replay=replay or {},
    )  # fmt: skip
    return {"format": "obp", "log": log, "targets": targets, "parameters": PARAMETERS} | answer


def judged_by_vw(
    python: Path, lines: list[str], form: str, targets: dict[str, Any], possible: tuple[float, float]
) -> Case:
    """The case of vw-estimators' and VW's numbers."""
    answer = ask(
        python, "vw_evaluation", task="values", lines=lines, format=form, targets=targets, range=possible
    )
    targets = targets | answer.pop("targets")
    return {"format": form, "log": lines, "targets": targets, "range": possible} | answer


def cases(rows: int, obp: Path | None, vw: Path | None) -> Iterator[Made]:
    """Every case of the packages that there are."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if obp is not None:
            yield from exported(rows, folder / "for-obp", obp, "obp")
            yield from replayed(rows, folder, obp)
            yield from read_from_obp(rows, obp)
        if vw is not None:
            yield from exported(rows, folder / "for-vw", vw, "dsjson")
            yield from read_from_vw(rows, vw)


def environment(peer: Peer, given: Path | None) -> Path | None:
    """The interpreter that was named, or that of an environment made for it."""
    if given is not None:
        return given.absolute()  # not resolved: an environment's interpreter is a link
    reason = prepare(peer)
    if reason is not None:
        print(f"without {peer.module}: {reason}", file=sys.stderr)
    return interpreter(peer) if reason is None else None


def number(value: Any) -> str:
    """A number, or an interval, to eight digits."""
    if isinstance(value, list):
        return " – ".join(map(number, value))
    return f"{value:.8f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000, help="decisions in every log")
    parser.add_argument("--obp-python", type=Path, help="an interpreter that has obp")
    parser.add_argument("--vw-python", type=Path, help="one that has vowpalwabbit and vw-estimators")
    parser.add_argument("--only", choices=("obp", "vw"), help="one of the two")
    parser.add_argument("--out", type=Path, help="folder for the cases as JSON files")
    given = parser.parse_args()
    obp = None if given.only == "vw" else environment(OBP, given.obp_python)
    vw = None if given.only == "obp" else environment(VW, given.vw_python)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
    same = obp is not None or vw is not None
    for name, case, log, targets in cases(given.rows, obp, vw):
        found = comparisons(case, ours(case, log, targets))
        same &= all(apart <= tolerance(estimator) for _, estimator, _, _, apart in found)
        rows = [[target, kind, number(a), number(b), f"{apart:.1e}"] for target, kind, a, b, apart in found]
        versions = ", ".join(f"{package} {version}" for package, version in case["versions"].items())
        print(table(f"{name} ({versions})", ["target", "estimator", "theirs", "ours", "difference"], rows, 2))
        if given.out is not None:
            save(
                {"made by": f"python benchmarks/ope_peers.py --rows {given.rows} --out DIRECTORY"} | case,
                given.out / f"{name}.json",
            )
    print("The same numbers." if same else "NOT the same numbers.")
    sys.exit(not same)


if __name__ == "__main__":
    main()
