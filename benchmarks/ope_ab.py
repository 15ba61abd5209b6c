"""An A/B test looked at every day: how wide, how soon, and how often wrong.

    python benchmarks/ope_ab.py --tests 60 --same 500 --out results/ope-ab

Three groups of visitors at random, 5 % clicks, one group 0.5 points more; 300,000 visitors, a look after
every 20,000. `difference` of that group and another by each of its intervals, day by day with the objects it
is made of, and beside it what else one might do: the two-sample z-test (whose level is for one look), one
betting sequence for each group at half the error each, and published sequences, written here from their
formulas, for each group at half the error each (independent visitors, best bounds so far):

- hedged capital and empirical Bernstein with predictable plug-in bets: Waudby-Smith & Ramdas (2024).
- stitched empirical Bernstein, normal mixture: Howard, Ramdas, McAuliffe & Sekhon (2021).
- beta-binomial mixture: Robbins (1970), for rewards 0 and 1 only.
- asymptotic sequence of the difference of means: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2021).

The rule, fixed before the first run: at n = 300,000 the median over tests of width / width of the z-test is
to be at most 2 for `betting` (ipw, the default) and at most 1.6 for `asymptotic`. Of A/A tests (all groups
alike) a method decides wrongly if on some day its interval is without zero; it *fails* with more wrong tests
than the 99.9 % quantile of Binomial(tests, 5 %). All but the z-test and `normal` must not fail.

    python benchmarks/ope_ab.py --users 300

So many A/A tests instead of 300 users with 5 to 40 rows each and rates from Beta(1/2, 1/2), put into two
groups at random, rows in random order, one look. By the same rule `compare` with `unit` must not fail, and
row by row no wrong test may be without a warning or a refusal.
"""

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq
from scipy.special import betaln
from scipy.stats import binom

from linmed.ope import DecisionLog, compare
from linmed.ope.accumulators import Contrast, Tally
from linmed.ope.evaluate import answers
from linmed.ope.intervals import OPEWarning, asymptotic, asymptotic_quantile, normal, quantile
from linmed.ope.plan import Plan, Recent
from linmed.ope.scan import Reading

VISITORS, DAY, GROUPS, CLICKS, MORE = 300_000, 20_000, 3, 0.05, 0.005
CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
GRID = np.arange(0.025, 0.0951, 1e-4)
Bounds = list[tuple[float, float]]
"""(lower, upper) on every day."""


def visitors(seed: int, more: float) -> tuple[np.ndarray, np.ndarray]:
    """Groups and clicks."""
    rng = np.random.default_rng([seed, round(more * 1e6)])
    group = rng.integers(GROUPS, size=VISITORS)
    return group, (rng.random(VISITORS) < CLICKS + more * (group == 1)).astype(float)


def ours(group: np.ndarray, click: np.ndarray) -> Iterator[tuple[str, Bounds]]:
    """Every interval that `difference` has, and two sequences of `evaluate`."""
    columns = {
        "arm": group,
        "arm_count": np.full(VISITORS, GROUPS),
        "probability": np.full(VISITORS, 1 / GROUPS),
        "reward": click,
    }
    # A day is a batch, and batches do not reach beyond a table's chunks.
    log = DecisionLog.from_table(pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=DAY)))
    for estimator, interval in (("ipw", "betting"), ("dr", "betting")):
        plan = Plan(log=log, targets=(1, 0), estimators=estimator, interval=interval, paired=True, batch=DAY)
        contrast = Contrast(plan)
        found: dict[str, Bounds] = {}
        for one, other in answers(plan, Recent(log, None), Reading()):
            assert len(one.rounds) == DAY
            contrast.add(one, other)
            found.setdefault(f"{interval}, {estimator}", []).append(contrast.bounds)
            if interval == "betting":
                for limit in (asymptotic, normal):
                    bounds = limit(contrast.gain, CONFIDENCE)
                    found.setdefault(f"{limit.__name__}, {estimator}", []).append(bounds)
        yield from found.items()
    plan = Plan(log=log, targets=(1, 0), estimators="ipw", confidence=1 - ALPHA / 2, batch=DAY)
    tallies, apart = [Tally(plan), Tally(plan)], []
    for batch in answers(plan, Recent(log, None), Reading()):
        for tally, answer in zip(tallies, batch, strict=True):
            tally.add(answer)
        (low, high), (other_low, other_high) = (next(tally.rows(""))[3:5] for tally in tallies)
        apart.append((low - other_high, high - other_low))
    yield "two betting sequences at α/2", apart


def z_test(group: np.ndarray, click: np.ndarray) -> Iterator[tuple[str, Bounds]]:
    """The two-sample z-test of each day, and the asymptotic sequence on the same statistic."""
    days: dict[str, Bounds] = {}
    for n in range(DAY, VISITORS + 1, DAY):
        (a, m), (b, k) = ((click[:n][group[:n] == i].mean(), (group[:n] == i).sum()) for i in (1, 0))
        error = math.sqrt(a * (1 - a) / m + b * (1 - b) / k)
        for name, z in (
            ("z-test", quantile(CONFIDENCE)),
            ("asymptotic, means", asymptotic_quantile(n, CONFIDENCE)),
        ):
            days.setdefault(name, []).append((a - b - z * error, a - b + z * error))
    yield from days.items()


def plug_in(x, alpha):
    """λ_t of Waudby-Smith & Ramdas (2024), equation (26), and x̂_{t−1}, before decision t."""
    rate, guess = np.empty(x.size), np.empty(x.size)
    total, spread = 0.0, 0.0
    for i in range(x.size):
        t = i + 1.0
        guess[i] = (0.5 + total) / t
        variance = (0.25 + spread) / t
        rate[i] = math.sqrt(2.0 * math.log(2.0 / alpha) / (variance * t * math.log(1.0 + t)))
        total += x[i]
        spread += (x[i] - (0.5 + total) / (1.0 + t)) ** 2
    return rate, guess


def hedged(x, rate, grid, ends, alpha):
    """The hedged capital's bounds on `grid` after each of `ends` visitors."""
    gain_more, gain_less, alive = np.zeros(grid.size), np.zeros(grid.size), np.ones(grid.size, dtype=bool)
    bounds = np.empty((ends.size, 2))
    done = 0
    for day in range(ends.size):
        for first in range(done // 50 * 50, ends[day], 50):  # Ville holds at every one of these moments
            now = np.arange(max(first, done), min(first + 50, ends[day]))[:, None]
            gain_more += np.log1p(np.minimum(rate[now], 0.5 / grid) * (x[now] - grid)).sum(axis=0)
            gain_less += np.log1p(-np.minimum(rate[now], 0.5 / (1.0 - grid)) * (x[now] - grid)).sum(axis=0)
            alive &= np.maximum(gain_more, gain_less) < math.log(2.0 / alpha)
        done = ends[day]
        first, last = 0, grid.size - 1
        while first < last and not alive[first]:
            first += 1
        while last > first and not alive[last]:
            last -= 1
        bounds[day, 0] = grid[first - 1] if first > 0 else 0.0
        bounds[day, 1] = grid[last + 1] if last < grid.size - 1 else 1.0
    return bounds


def per_group(x: np.ndarray, ends: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
    """Published sequences for one group's mean: bounds (days, 2) after `ends` visitors, best so far."""
    rate, guess = plug_in(x, alpha)
    found = {"hedged capital": hedged(x, rate, GRID, ends, alpha)}
    n, mean = np.arange(1, x.size + 1), np.cumsum(x) / np.arange(1, x.size + 1)
    # Empirical Bernstein, plug-in: ψ_E(λ) = −log(1 − λ) − λ.
    cut = np.minimum(rate, 0.5)
    weight = np.cumsum(cut)
    penalty = np.cumsum((x - guess) ** 2 * (-np.log1p(-cut) - cut))
    centre, half = np.cumsum(cut * x) / weight, (math.log(2 / alpha) + penalty) / weight
    found["empirical Bernstein, plug-in"] = around(centre, half, ends)
    # Stitched empirical Bernstein with c = 1, η = 2, s = 1.4, m = 1, each side at α/2.
    v = np.maximum(np.cumsum((x - guess) ** 2), 1.0)
    zeta = 3.1055  # ζ(1.4)
    ell = 1.4 * np.log(np.log(2 * v)) + math.log(2 * zeta / (alpha * math.log(2) ** 1.4))
    k1, k2 = (2**0.25 + 2**-0.25) / math.sqrt(2), (math.sqrt(2) + 1) / 2
    half = (np.sqrt(k1**2 * v * ell + (k2 * ell) ** 2) + k2 * ell) / n
    found["stitched empirical Bernstein"] = around(mean, half, ends)
    # Normal mixture for terms in [0, 1], which are sub-Gaussian with variance 1/4; best at 100,000.
    level = -2 * math.log(alpha)
    rho = 25_000 / (level + math.log1p(level))
    v = n / 4
    found["normal mixture"] = around(mean, np.sqrt((v + rho) * (np.log1p(v / rho) + level)) / n, ends)
    found["beta-binomial mixture"] = np.array([beta_binomial(x[:end].sum(), int(end), alpha) for end in ends])
    return {name: best_so_far(bounds) for name, bounds in found.items()}


def around(centre: np.ndarray, half: np.ndarray, ends: np.ndarray) -> np.ndarray:
    return np.stack([(centre - half)[ends - 1], (centre + half)[ends - 1]], axis=1)


def beta_binomial(total: float, n: int, alpha: float) -> tuple[float, float]:
    """Means against which a Beta(1/2, 1/2) mixture of likelihoods has not gained 1/α."""
    mixed = betaln(total + 0.5, n - total + 0.5) - betaln(0.5, 0.5)

    def excess(m: float) -> float:
        return mixed - total * math.log(m) - (n - total) * math.log1p(-m) + math.log(alpha)

    mean = min(max(total / n, 1e-9), 1 - 1e-9)
    return brentq(excess, 1e-12, mean), brentq(excess, mean, 1 - 1e-12)


def best_so_far(bounds: np.ndarray) -> np.ndarray:
    return np.stack([np.maximum.accumulate(bounds[:, 0]), np.minimum.accumulate(bounds[:, 1])], axis=1)


def published(group: np.ndarray, click: np.ndarray) -> Iterator[tuple[str, Bounds]]:
    ends = [np.array([(group[:n] == i).sum() for n in range(DAY, VISITORS + 1, DAY)]) for i in (1, 0)]
    one, other = (per_group(click[group == i], end, ALPHA / 2) for i, end in zip((1, 0), ends, strict=True))
    for name, bounds in one.items():
        low, high = bounds[:, 0] - other[name][:, 1], bounds[:, 1] - other[name][:, 0]
        yield f"{name} at α/2", list(zip(low.tolist(), high.tolist(), strict=True))


def test(seed: int, more: float) -> dict[str, Bounds]:
    """Every method's bounds on every day of one test."""
    warnings.simplefilter("ignore", OPEWarning)
    group, click = visitors(seed, more)
    return dict((*z_test(group, click), *ours(group, click), *published(group, click)))


def first_day(bounds: Bounds) -> float:
    """The first day on which zero is out; infinite if there is none."""
    return next((day for day, (low, high) in enumerate(bounds, 1) if not low <= 0.0 <= high), math.inf)


def table(different: list[dict[str, Bounds]], same: list[dict[str, Bounds]]) -> str:
    lines = [
        "| interval | width at 300,000 / z-test's | day of decision | decided by day 15 | wrong A/A |",
        "|---|---|---|---|---|",
    ]
    allowed = binom.ppf(0.999, len(same), ALPHA)
    for name in different[0]:
        ratios = [width(found[name]) / width(found["z-test"]) for found in different]
        days = np.array([first_day(found[name]) for found in different])
        wrong = sum(first_day(found[name]) < math.inf for found in same)
        middle = float(np.quantile(days, 0.5, method="higher"))
        day = f"{middle:.0f}" if middle < math.inf else "> 15"
        share = f"{wrong / len(same):.1%}{'*' if wrong > allowed else ''}" if same else "—"
        low, high = min(ratios), max(ratios)
        lines.append(
            f"| {name} | {np.median(ratios):.2f} ({low:.2f} – {high:.2f}) | {day} "
            f"| {np.isfinite(days).mean():.0%} | {share} |"
        )
    return "\n".join(lines)


def width(bounds: Bounds) -> float:
    return bounds[-1][1] - bounds[-1][0]


def of_users(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, 17])
    group, size = rng.integers(2, size=300), rng.integers(5, 41, size=300)
    rate = rng.beta(0.5, 0.5, size=300)
    user = rng.permutation(np.repeat(np.arange(300), size))
    clicks = (rng.random(user.size) < rate[user]).astype(float)
    return {"variant": np.array(["a", "b"])[group[user]], "click": clicks, "user": user}


def users(tests: int) -> str:
    """Wrong A/A tests of users with several rows, and of those how many come without a word."""
    lines = ["| interval | unit | wrong | refused | wrong without a warning |", "|---|---|---|---|---|"]
    allowed = binom.ppf(0.999, tests, ALPHA)
    for interval in ("betting", "asymptotic", "normal"):
        for unit in (None, "user"):
            wrong = refused = silent = 0
            for seed in range(tests):
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always", OPEWarning)
                    try:
                        found = compare(
                            of_users(seed), "variant", reward="click", unit=unit, interval=interval
                        )
                    except ValueError:
                        refused += 1
                        continue
                row = found.to_pylist()[-1]
                missed = not row["lower"] <= 0.0 <= row["upper"]
                wrong, silent = wrong + missed, silent + (missed and not said)
            mark = "*" if wrong > allowed else ""
            lines.append(f"| {interval} | {unit or 'none'} | {wrong}{mark} | {refused} | {silent} |")
    return "\n".join(lines)


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--tests", type=int, default=60, help="with a difference")
    parser.add_argument("--same", type=int, default=500, help="without one")
    parser.add_argument("--users", type=int, help="instead, so many A/A tests of users with several rows")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/ope-ab"))
    args = parser.parse_args()
    if args.users is not None:
        print(users(args.users))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.processes) as pool:
        different = run(pool, args.out / "different.jsonl", args.tests, MORE)
        print(table(different, []), flush=True)
        same = run(pool, args.out / "same.jsonl", args.same, 0.0)
    text = table(different, same)
    (args.out / "ab.md").write_text(text + "\n")
    print(text)


def run(pool: ProcessPoolExecutor, path: Path, tests: int, more: float) -> list[dict[str, Bounds]]:
    """So many tests; those that are in the file already are not made again."""
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    seeds = range(len(known), tests)
    with path.open("a") as file:
        for found in pool.map(test, seeds, [more] * len(seeds)):
            known.append(found)
            print(json.dumps(found), file=file, flush=True)
    return known[:tests]


if __name__ == "__main__":
    main()
