"""Coverage of every interval: where logging policies learn, values drift, rewards are late or rare.

    python benchmarks/ope_coverage.py --logs 400 --out results/ope-coverage

Each log is its own problem: K = 10 arms in d = 4 with Bernoulli rewards of mean ⟨a, θ⟩ in [0.1, 0.9],
10,000 decisions. Targets are the uniform policy and the arm that is greedy for θ. Intervals are what
`evaluate` answers at n = 100, 1,000 and 10,000 at level 95 %; sequences are also looked at after every one of
the first 100 decisions and whenever n has grown by two per cent, and miss a log if they miss once
(asymptotic: from n = 100 on). Truth at n is the average value of the first n decisions.

- learning: logs of LinMED-90, LinMED-50, SquareCB and a greedy policy that explores at rate t^−0.7.
- drift: logs of LinMED-90 while all means decline linearly to a fifth, fall to 0.4 of themselves half-way, or
  have seasons of 2,000 decisions.
- delay: logs of LinMED-90, means a quarter of the above, a decision a second, read when the last was made.
  "timeout": a 1 is known at once, a 0 after 2,000 s. "late clicks": a 1 after 0 to 2,000 s, a 0 after 20 s.
  "clicks only": a 1 after 300 s in the mean, a 0 never; with missing=0 the value is that of rewards within
  2,000 s.
- rare: rewards of 0.1 to 0.3 %, a uniform logging policy.
- softmax: K = 5 arms with means 0.2 to 0.6; a softmax of their running means (temperature 0.03) with a floor
  of 2 % for each arm, n = 1,500 and 6,000; targets the worst arm, the best one and uniform, asked for "ipw"
  alone. "contexts": four kinds of visitors, drawn at random, each with its own order of the means and its own
  softmax, so that probabilities also vary where nothing is learned.

The rule, fixed before the first run. Where a limit theorem refuses (NaN with a warning) there is no interval
to count, and the share is shown; a sequence's NaN is a miss. A cell of L intervals *fails* if it has more
misses than the 99.9 % quantile of Binomial(L, 5 %), which a true 95 % exceeds in one cell of a thousand.
Betting must not fail anywhere, except where the reading is wrong by design and shown to be so
(missing="skip"). "adaptive" must not fail in the softmax study, nor miss
significantly more often there than "normal" does (sign test over the logs, 0.1 %). An interval of width zero
is a failure wherever it occurs.
Writes one CSV row per cell; prints the tables, failing cells marked with an asterisk.
"""

import argparse
import csv
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from ope_logs import LAST, MATURE, K, Played, late, play, table_of
from scipy.stats import binom

from linmed.ope import DecisionLog, evaluate
from linmed.ope.evaluate import answers
from linmed.ope.intervals import OPEWarning, asymptotic_quantile
from linmed.ope.plan import Plan, Recent
from linmed.ope.scan import Reading
from linmed.ope.sequences import BettingLower
from linmed.policies.base import Policy
from linmed.policies.igw import SquareCB
from linmed.policies.linmed import LinMED

CONFIDENCE = 0.95
LEVEL = (1 - CONFIDENCE) / 2
SIZES = (100, 1_000, LAST)
LOOKS = sorted({*range(1, 101), *(round(100 * 1.02**i) for i in range(233)), LAST})
POLICIES: dict[str, Policy | None] = {
    "LinMED-90": LinMED(sigma=0.5),
    "LinMED-50": LinMED(sigma=0.5, alpha_emp=0.5, alpha_opt=0.25),
    "SquareCB": SquareCB(sigma=0.5),
    "greedy t^−0.7": None,
}
STEPS = np.arange(LAST) / LAST
DRIFTS = {
    "decline": 1.0 - 0.8 * STEPS,
    "step": np.where(STEPS < 0.5, 1.0, 0.4),
    "season": 0.6 + 0.4 * np.sin(2 * np.pi * 5 * STEPS),
}
DELAYS = ("timeout", "late clicks", "clicks only")
READINGS: dict[str, dict[str, Any]] = {
    "missing='stop'": {},
    "missing='skip'": {"missing": "skip"},
    "mature=2000": {"mature": MATURE},
    "mature=2000, missing=0": {"mature": MATURE, "missing": 0.0},
}


class Cell(NamedTuple):
    """What one share of misses is about."""

    study: str
    case: str
    target: str
    interval: str
    terms: str
    n: str


Found = tuple[Cell, bool | None, float]
"""A cell, whether its interval missed (None: there was no interval), and its width."""


def targets_of(means: np.ndarray) -> dict[str, tuple[Any, float]]:
    """Name → the target and its value."""
    best = int(means.argmax())
    return {"uniform": ("uniform", float(means.mean())), "greedy": (best, float(means[best]))}


def judge(cell: Cell, lower: float, upper: float, truth: float, sequence: bool) -> Found:
    if math.isnan(lower):
        return cell, True if sequence else None, math.nan
    return cell, not lower <= truth <= upper, upper - lower


ASKED: dict[tuple[str, str], tuple[str, ...]] = {
    ("betting", "all p"): ("ipw", "dr"), ("betting", "played p"): ("ipw",),
    ("asymptotic", "all p"): ("ipw", "dr"),
    ("adaptive", "all p"): ("ipw", "dr"), ("normal", "all p"): ("ipw", "snipw", "dr"),
}  # fmt: skip


def known(table: pa.Table, columns: str) -> pa.Table:
    return table if columns == "all p" else table.drop_columns(["probabilities", "arms"])


def at_sizes(
    case: tuple[str, str], table: pa.Table, targets: dict[str, tuple[Any, float]], factor: np.ndarray,
    intervals: list[tuple[str, str]], sizes: tuple[int, ...] = SIZES, **options: Any,
) -> Iterator[Found]:  # fmt: skip
    """What `evaluate` answers about the first n decisions."""
    for size in sizes:
        share = float(factor[:size].mean())
        for interval, columns in intervals:
            log = DecisionLog.from_table(known(table, columns).slice(0, size))
            asked = {name: target for name, (target, _) in targets.items()}
            rows = evaluate(log, asked, ASKED[interval, columns], interval=interval, **options).to_pylist()
            for row in rows:
                terms = row["estimator"] + (", played p" if columns == "played p" else "")
                cell = Cell(*case, row["target"], interval, terms, str(size))
                truth = targets[row["target"]][1] * share
                yield judge(cell, row["lower"], row["upper"], truth, interval == "betting")


def at_every_look(
    case: tuple[str, str], table: pa.Table, targets: dict[str, tuple[Any, float]], factor: np.ndarray,
    intervals: list[tuple[str, str]],
) -> Iterator[Found]:  # fmt: skip
    """Whether a sequence ever misses."""
    share = np.cumsum(factor) / np.arange(1, LAST + 1)
    for interval, columns in intervals:
        log = DecisionLog.from_table(known(table, columns))
        asked = {name: target for name, (target, _) in targets.items()}
        plan = Plan(log=log, targets=asked, estimators=ASKED[interval, columns], interval=interval)
        (batch,) = answers(plan, Recent(log, None), Reading())
        for estimator in plan.estimators:
            form = estimator.form
            for target, answer in zip(plan.targets, batch, strict=True):
                truth = targets[target.name][1] * share
                if interval == "asymptotic":
                    missed = asymptotic_missed(answer.terms(estimator.source), truth)
                else:
                    sides = zip(answer.sides(form), (truth, 1 - truth), strict=True)
                    missed = any(side_missed(plan.stakes(form), side, mean) for side, mean in sides)
                terms = estimator.label + (", played p" if columns == "played p" else "")
                yield Cell(*case, target.name, interval, terms, "every n"), missed, math.nan


def side_missed(stakes: tuple[float, ...], side: Any, mean: np.ndarray) -> bool:
    """Whether a lower sequence is ever above the mean (n,)."""
    lower, done = BettingLower(LEVEL, stakes), 0
    for n in LOOKS:
        lower.add(side.part(done, n))
        done = n
        if lower.log_wealth(float(mean[n - 1])) >= lower.log_level:
            return True
    return False


def asymptotic_missed(terms: np.ndarray, truth: np.ndarray) -> bool:
    """Whether the asymptotic sequence ever misses; where nothing varies there is none."""
    n = np.array([look for look in LOOKS if look >= 100])
    mean = np.cumsum(terms)[n - 1] / n
    variance = (np.cumsum(terms**2)[n - 1] - n * mean**2) / (n - 1)
    half = np.sqrt(np.maximum(variance, 0) / n) * [asymptotic_quantile(int(one), CONFIDENCE) for one in n]
    return bool(((half > 0) & (np.abs(mean - truth[n - 1]) > half)).any())


def learning(case: tuple[str, str], log: Played, r: int, number: int) -> Iterator[Found]:
    table, targets, still = table_of(log, r), targets_of(log.means[r]), np.ones(LAST)
    yield from at_sizes(case, table, targets, still, list(ASKED))
    looked = [kind for kind in ASKED if kind[0] in ("betting", "asymptotic")]
    yield from at_every_look(case, table, targets, still, looked)


def drifting(case: tuple[str, str], log: Played, r: int, number: int) -> Iterator[Found]:
    table, targets, factor = table_of(log, r), targets_of(log.means[r]), DRIFTS[case[1]]
    kinds = [("betting", "all p"), ("betting", "played p"), ("asymptotic", "all p")]
    yield from at_sizes(case, table, targets, factor, [*kinds, ("normal", "all p")], (LAST,))
    yield from at_every_look(case, table, targets, factor, kinds)


def delayed(case: tuple[str, str], log: Played, r: int, number: int) -> Iterator[Found]:
    rng = np.random.default_rng([number, DELAYS.index(case[1])])
    table, share = late(table_of(log, r), case[1], rng)
    targets = targets_of(log.means[r] * 0.25)
    asked = {name: target for name, (target, _) in targets.items()}
    for reading, options in READINGS.items():
        truth = share if "missing" in options and reading.startswith("mature") else 1.0
        try:
            found = evaluate(DecisionLog.from_table(table), asked, "ipw", **options).to_pylist()
        except ValueError:  # the first decision's reward is not in: refused
            found = [{"target": name, "lower": math.nan, "upper": math.nan, "n": 0} for name in asked]
        for row in found:
            cell = Cell(*case, row["target"], "betting", reading, f"{LAST}")
            yield judge(cell, row["lower"], row["upper"], targets[row["target"]][1] * truth, row["n"] > 0)


def rare(case: tuple[str, str], log: Played, r: int, number: int) -> Iterator[Found]:
    rng = np.random.default_rng([number, 7])
    means = rng.uniform(0.001, 0.003, size=K)
    arm = rng.integers(K, size=LAST)
    table = pa.table(
        {
            "arm": arm, "arm_count": np.full(LAST, K), "probability": np.full(LAST, 1 / K),
            "probabilities": pa.array(np.full((LAST, K), 1 / K).tolist()),
            "reward": (rng.random(LAST) < means[arm]).astype(float),
        }
    )  # fmt: skip
    kinds = [(kind, "all p") for kind in ("betting", "asymptotic", "normal", "adaptive")]
    yield from at_sizes(case, table, targets_of(means), np.ones(LAST), kinds)


SOFTMAX = (1_500, 6_000)


def softmax(case: tuple[str, str], log: Played, r: int, number: int) -> Iterator[Found]:
    rng = np.random.default_rng([number, 11])
    arms, kinds, floor, n = 5, 4 if case[1] == "contexts" else 1, 0.02, SOFTMAX[-1]
    means = np.stack([np.roll(np.linspace(0.2, 0.6, arms), kind) for kind in range(kinds)])
    sums, counts = np.zeros((kinds, arms)), np.zeros((kinds, arms))
    kind, draws = rng.integers(kinds, size=n), rng.random((n, 2))
    arm, reward, chances = np.empty(n, np.int64), np.empty(n), np.empty((n, arms))
    for t in range(n):
        own = (sums[kind[t]] + 0.5) / (counts[kind[t]] + 1.0)
        law = np.exp((own - own.max()) / 0.03)
        law = floor + (1.0 - arms * floor) * law / law.sum()
        arm[t] = min(np.searchsorted(np.cumsum(law), draws[t, 0], side="right"), arms - 1)
        reward[t], chances[t] = draws[t, 1] < means[kind[t], arm[t]], law
        sums[kind[t], arm[t]] += reward[t]
        counts[kind[t], arm[t]] += 1.0
    table = {
        "arm": arm, "arm_count": np.full(n, arms), "probability": chances[np.arange(n), arm],
        "probabilities": chances, "reward": reward,
    }  # fmt: skip
    values = means.mean(axis=0)
    targets: dict[str, tuple[Any, float]] = {
        "worst": (0, values[0]), "best": (arms - 1, values[-1]), "uniform": ("uniform", values.mean())
    }  # fmt: skip
    for size in SOFTMAX:
        part = DecisionLog.from_table({name: column[:size] for name, column in table.items()})
        for interval in ("normal", "adaptive", "betting"):
            asked = {name: target for name, (target, _) in targets.items()}
            for row in evaluate(part, asked, "ipw", interval=interval).to_pylist():
                cell = Cell(*case, row["target"], interval, "ipw", str(size))
                truth = targets[row["target"]][1]
                yield judge(cell, row["lower"], row["upper"], truth, interval == "betting")


Study = Callable[[tuple[str, str], Played, int, int, bool], Iterator[Found]]
STUDIES: dict[str, tuple[Study, tuple[str, ...]]] = {
    "learning": (learning, tuple(POLICIES)),
    "drift": (drifting, tuple(DRIFTS)),
    "delay": (delayed, DELAYS),
    "rare": (rare, ("uniform logs",)),
    "softmax": (softmax, ("softmax", "contexts")),
}
ALONE = ("rare", "softmax")
"""Studies that make their logs themselves."""


def block(study: str, case: str, start: int, count: int, seed: int) -> list[Found]:
    """All that is found on some logs of one case."""
    warnings.simplefilter("ignore", OPEWarning)
    run, cases = STUDIES[study]
    rng = np.random.default_rng([seed, list(STUDIES).index(study), cases.index(case), start])
    factor = DRIFTS.get(case, np.full(LAST, 0.25 if study == "delay" else 1.0))
    policy = POLICIES.get(case, POLICIES["LinMED-90"]) if study not in ALONE else None
    log = play(policy, count if study not in ALONE else 0, factor, rng)
    numbers = range(start, start + count)
    return [one for r, i in enumerate(numbers) for one in run((study, case), log, r, i)]


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--logs", type=int, default=400, help="of each case")
    parser.add_argument("--block", type=int, default=50, help="logs simulated at once")
    parser.add_argument("--studies", nargs="*", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/ope-coverage"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cells: dict[Cell, list[tuple[bool | None, float]]] = {}
    begun = time.perf_counter()
    with ProcessPoolExecutor(args.processes) as pool:
        # By blocks, then cases: a study that is stopped has seen them all.
        jobs = {
            pool.submit(block, study, case, start, min(args.block, args.logs - start), args.seed): (
                study,
                case,
                start,
            )
            for start in range(0, args.logs, args.block)
            for study in args.studies
            for case in STUDIES[study][1]
        }
        for i, job in enumerate(as_completed(jobs)):
            for cell, missed, width in job.result():
                cells.setdefault(cell, []).append((missed, width))
            report(cells, args.out / "coverage.csv")
            (args.out / "coverage.md").write_text(markdown(cells))
            print(
                f"{i + 1} of {len(jobs)}: {jobs[job]}, {time.perf_counter() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    print(markdown(cells))


def summary(found: list[tuple[bool | None, float]]) -> tuple[int, int, int, float, bool, int]:
    """Intervals, misses, refusals, median width, whether the cell fails, intervals without width."""
    missed = [one for one, _ in found if one is not None]
    widths = np.array([width for _, width in found])
    allowed = binom.ppf(0.999, len(missed), 1 - CONFIDENCE) if missed else 0
    width = float(np.nanmedian(widths)) if np.isfinite(widths).any() else math.nan
    points = int((widths <= 0).sum())
    return (
        len(missed),
        sum(missed),
        len(found) - len(missed),
        width,
        sum(missed) > allowed or points > 0,
        points,
    )


def report(cells: dict[Cell, list[tuple[bool | None, float]]], path: Path) -> None:
    """Write what is known so far, so that an interrupted study leaves its results."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            (*Cell._fields, "intervals", "misses", "refused", "median width", "fails", "zero width")
        )
        writer.writerows((*cell, *summary(found)) for cell, found in sorted(cells.items()))


def markdown(cells: dict[Cell, list[tuple[bool | None, float]]]) -> str:
    """One table per study and target: coverage at each n, then the median width at the last."""
    text = []
    for study, target in dict.fromkeys((cell.study, cell.target) for cell in sorted(cells)):
        own = {
            cell: summary(found)
            for cell, found in cells.items()
            if (cell.study, cell.target) == (study, target)
        }
        cases = [case for case in STUDIES[study][1] if any(cell.case == case for cell in own)]
        counts = sorted({int(cell.n) for cell in own if cell.n.isdecimal()})
        text += [f"Study {study}, target {target}: coverage; median width at n = {counts[-1]:,}", ""]
        text += [f"| interval | terms | {' | '.join(cases)} |", "|---|---|" + "---|" * len(cases)]
        for kind in dict.fromkeys((cell.interval, cell.terms) for cell in sorted(own)):
            row = []
            for case in cases:
                sizes = [own.get(Cell(study, case, target, *kind, n)) for n in (*map(str, counts), "every n")]
                width = sizes[-2][3] if sizes[-2] is not None else math.nan
                row.append(" / ".join(map(cell_text, filter(None, sizes))) + f"; {width:.3f}")
            text.append(f"| {' | '.join((*kind, *row))} |")
        text.append("")
    return "\n".join(text)


def cell_text(found: tuple[int, int, int, float, bool, int]) -> str:
    """Coverage, an asterisk where the cell fails, and the share refused."""
    number, misses, refused, _, fails, points = found
    if number == 0:
        return "none"
    none = f" ({refused / (number + refused):.0%} none)" if refused else ""
    zero = f" ({points} of zero width)" if points else ""
    return f"{1 - misses / number:.1%}{'*' if fails else ''}{none}{zero}"


if __name__ == "__main__":
    main()
