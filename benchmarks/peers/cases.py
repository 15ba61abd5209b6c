"""A log, what another package computed from it, and the same numbers by linmed: the two must agree.

A case is a JSON file (tests/ope/peers holds small ones): the log as the other package wrote it, or as we
exported it for that package, the targets' probabilities, and the other package's numbers by our names.
"""

import json
import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from linmed import Greedy
from linmed.ope import (
    ESTIMATORS,
    ClippedIPW,
    DecisionLog,
    DRos,
    OPEWarning,
    Replay,
    Sample,
    SwitchDR,
    evaluate,
)

TOLERANCE = 1e-10
SINGLE = 1e-6
"""Vowpal Wabbit's own sums are made of single-precision terms."""
MODEL = ", model of obp"
Case = dict[str, Any]
Numbers = dict[str, dict[str, Any]]


def tolerance(estimator: str) -> float:
    """How far their number may be from ours."""
    return SINGLE if estimator.endswith(", vw") else TOLERANCE


def read(case: Case) -> DecisionLog:
    """The log by the reader of its format."""
    if case["format"] == "obp":
        arrays = {k: np.asarray(v) if isinstance(v, list) else v for k, v in case["log"].items()}
        return DecisionLog.from_obp(arrays)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_text("\n".join(case["log"]) + "\n")
        reader = DecisionLog.from_dsjson if case["format"] == "dsjson" else DecisionLog.from_vw
        return DecisionLog.from_table(reader(path).table())


def export(log: DecisionLog, form: str) -> Any:
    """The log in the format of another package, as a case holds it."""
    if form == "obp":
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in log.to_obp().items()}
    with tempfile.TemporaryDirectory() as folder:
        log.to_dsjson(Path(folder) / "log")
        return (Path(folder) / "log").read_text().splitlines()


def rewarded(log: DecisionLog) -> np.ndarray:
    """Which decisions have a reward."""
    return log.table(["reward"])["reward"].is_valid().to_numpy()


def past_model(log: DecisionLog) -> np.ndarray:
    """Ridge regression on the features and a constant, of the rewarded decisions before each: q̂ (n, K).

    In plain NumPy, one solve a decision: what `evaluate` computes, written a second time for the other side.
    """
    table = log.table(["arms", "arm", "reward"])
    table = table.filter(table["reward"].is_valid())
    arms = np.array(table["arms"].to_pylist())
    rows = np.concatenate([arms, np.ones((*arms.shape[:2], 1))], axis=2)
    V, b = np.eye(rows.shape[2]), np.zeros(rows.shape[2])
    model = np.empty(rows.shape[:2])
    played = zip(table["arm"].to_pylist(), table["reward"].to_pylist(), strict=True)
    for t, (arm, reward) in enumerate(played):
        model[t] = rows[t] @ np.linalg.solve(V, b)
        V += np.outer(rows[t, arm], rows[t, arm])
        b += reward * rows[t, arm]
    return model


def ours(case: Case, log: DecisionLog | None = None, targets: dict[str, Any] | None = None) -> Numbers:
    """Every number of the case, of its log or of the one it was exported from, with that one's targets."""
    log = read(case) if log is None else log
    table = log.table()
    for name, chances in case["targets"].items():
        if targets is None or name not in targets:
            table = table.append_column(name, [chances])
    log = DecisionLog.from_table(table)
    found: Numbers = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        for name, theirs in case["numbers"].items():
            target = (targets or {}).get(name, f"column:{name}")
            found[name] = _replayed(case, log) if "replay" in theirs else _values(case, log, name, target)
    return found


def _replayed(case: Case, log: DecisionLog) -> dict[str, float]:
    return {"replay": Replay(Greedy(), bound=case["log"]["n_actions"]).run(log).estimate}


def _values(case: Case, log: DecisionLog, name: str, target: Any) -> dict[str, Any]:
    asked, limits = case["numbers"][name], case.get("parameters", {})
    given = {
        "clipped": lambda: ClippedIPW(limits["clipped"]),
        "switch": lambda: SwitchDR(limits["switch"]),
        "dros": lambda: DRos(limits["dros"]),
    }
    instances = {key: given.get(key, kind)() for key, kind in ESTIMATORS.items() if key in asked}
    rows = evaluate(log, {name: target}, instances, interval="none", missing="skip").to_pylist()
    found: dict[str, Any] = {row["estimator"]: row["estimate"] for row in rows}
    if "ipw, vw" in asked:
        found["ipw, vw"] = found["ipw"]
    if "normal" in asked:
        (row,) = evaluate(
            log, {name: target}, "ipw", "normal", reward_range=tuple(case["range"]), missing="skip"
        ).to_pylist()
        found["normal"] = [row["lower"], row["upper"]]
    modelled = [key for key in instances if key + MODEL in asked]
    if modelled:
        sample = _sample(case, log, name)
        found |= {key + MODEL: instances[key](sample) for key in modelled}
    return found


def _sample(case: Case, log: DecisionLog, name: str) -> Sample:
    """Weights, rewards and the predictions of obp's own model."""
    table = log.table(["arm", "probability", "reward"])
    table = table.filter(table["reward"].is_valid())
    arm, rows = table["arm"].to_numpy(), np.arange(table.num_rows)
    target, model = np.array(case["targets"][name]), np.array(case["model of obp"])
    weight = target[rows, arm] / table["probability"].to_numpy()
    value = (target * model).sum(axis=1)
    return Sample(weight, table["reward"].to_numpy(), model[rows, arm], value)


def difference(theirs: Any, found: Any) -> float:
    """The largest distance of two numbers, or of two intervals; NaN where one of them is none."""
    distances = np.abs(np.subtract(np.asarray(theirs, dtype=float), np.asarray(found, dtype=float)))
    return float(np.max(distances)) if not np.isnan(distances).any() else math.nan


def comparisons(case: Case, found: Numbers) -> list[tuple[str, str, Any, Any, float]]:
    """(target, estimator, theirs, ours, difference) of everything that both must agree on."""
    return [
        (name, estimator, value, found[name][estimator], difference(value, found[name][estimator]))
        for name, theirs in case["numbers"].items()
        for estimator, value in theirs.items()
    ]


def load(path: Path) -> Case:
    """A case from its file."""
    case: Case = json.loads(path.read_text())
    return case


def save(case: Case, path: Path) -> None:
    """A case as a file, one line a key."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in case.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
