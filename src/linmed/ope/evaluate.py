"""`evaluate`: one pass over a log, every target × estimator with its interval."""

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pyarrow as pa

from linmed import checks
from linmed.checks import Floats
from linmed.log import BATCH, DecisionLog
from linmed.ope.estimators import Estimator, MarginalIPW, Moments, Sample, as_estimators
from linmed.ope.intervals import VALID, Bootstrap, StableVariance, normal, warn
from linmed.ope.plan import Answer, Plan, Progress
from linmed.ope.rounds import Reading
from linmed.ope.sequences import KINDS, ValueSequence
from linmed.ope.targets import Target, as_target, as_targets

RESULT = pa.schema(
    [
        ("target", pa.string()),
        ("estimator", pa.string()),
        ("estimate", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("n", pa.int64()),
        ("effective_n", pa.float64()),
        ("valid", pa.string()),
    ]
)


def evaluate(
    log: DecisionLog,
    targets: Any,
    estimators: Any = ("ipw", "snipw", "dr"),
    interval: str = "betting",
    confidence: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    *,
    regressor: Any = None,
    adaptive: bool | None = None,
    missing: str = "skip",
    drift: bool = False,
    samples: int = 200,
    seed: int = 0,
    batch: int = BATCH,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> pa.Table:
    """What would each target have earned per decision, and how sure are we?

    `targets`: one, a sequence or a {name: target} mapping; see `as_target`. `estimators`: names of
    `ESTIMATORS` or instances. `interval`: "betting", "bernstein", "mixture" (valid at any time, need
    `reward_range`), "adaptive" (logging policy learned), "normal", "bootstrap" (it did not), "none".

    A target must not have been chosen or trained on this very log: no interval accounts for that.

    An interval is about the target's value, whichever estimate stands beside it: with a sequence, or
    with "adaptive", the biased estimators get the interval of the unbiased form they are made from (that
    of IPW without a reward model, that of DR with one). "adaptive" also replaces IPW's and DR's estimate
    by the stabilised one its interval is centred on.

    `regressor`: reward model, ridge by default; see `Refitted`. `adaptive`: whether the logging policy
    learned; None asks the log's `version` and `policy` columns. `missing`: decisions without a reward are
    left out ("skip": right if lateness does not depend on the reward) or end the log ("stop"). `drift`:
    contexts may change over time, so sequences are about the average value so far (IPW terms only).
    `progress` is called with the number of decisions read so far. `executor` (a pool, or
    `dask.distributed.Client(...).get_executor()`) reads the log's files and asks the targets on its workers.

    Returns one row per target × estimator: target, estimator, estimate, lower, upper, n, effective_n
    ((Σw)²/Σw²), valid ("independent", "adaptive" or "any time": what the interval needs).
    """
    plan = Plan(
        log, as_targets(targets), as_estimators(estimators), interval, confidence, reward_range, drift
    )
    if not (adaptive is None or isinstance(adaptive, bool)):
        raise TypeError(f"adaptive must be True, False or None, got {adaptive!r}")
    tallies = [Tally(plan, target, checks.whole("samples", samples, 2), seed) for target in plan.targets]
    reading = Reading()
    for answers in plan.stream(
        regressor=regressor,
        missing=missing,
        adaptive=adaptive,
        batch=checks.whole("batch", batch),
        progress=progress,
        executor=executor,
        reading=reading,
    ):
        for tally, answer in zip(tallies, answers, strict=True):
            tally.add(answer)
    if VALID[interval] == "independent" and (reading.adaptive if adaptive is None else adaptive):
        warn(
            f"interval={interval!r} holds for independent decisions, but the logging policy changed along "
            f"{log.name}: use 'adaptive', or 'betting' with a reward_range"
        )
    if VALID[interval] == "independent" and any(estimator.name == "dm" for estimator in plan.estimators):
        warn(
            f"interval={interval!r} of the direct method shows how the model's predictions vary, not how "
            "wrong the model is: use 'dr'"
        )
    rows = [row for tally in tallies for row in tally.rows()]
    impossible = sorted({row[0] for row in rows if math.isnan(row[3])}) if interval != "none" else []
    if impossible:
        warn(
            f"no value of target {impossible[0]!r} is compatible with {log.name} at confidence "
            f"{confidence:g}: its probabilities are wrong, or the value changed over time (drift=True)"
        )
    table = pa.table(dict(zip(RESULT.names, zip(*rows, strict=True), strict=True)), schema=RESULT)
    return table.replace_schema_metadata(
        {
            "decisions": str(reading.decisions),
            "waiting": str(reading.waiting),
            "interval": interval,
            "confidence": repr(plan.confidence),
        }
    )


def sequence(
    log: DecisionLog,
    target: Any,
    estimator: str = "ipw",
    interval: str = "betting",
    confidence: float = 0.95,
    reward_range: tuple[float, float] = (0.0, 1.0),
    *,
    regressor: Any = None,
    missing: str = "skip",
    drift: bool = False,
    progress: Progress | None = None,
) -> pa.Table:
    """The estimate and its confidence sequence over time: n, estimate, lower, upper at growing n.

    `estimator` is "ipw" or "dr"; `interval` one of the sequences.
    """
    checks.option("estimator", estimator, ("ipw", "dr"))
    checks.option("interval", interval, KINDS)
    plan = Plan(log, [as_target(target)], as_estimators(estimator), interval, confidence, reward_range, drift)
    tally = Tally(plan, plan.targets[0], 2, 0)
    for (answer,) in plan.stream(regressor=regressor, missing=missing, progress=progress):
        tally.add(answer)
    return tally.sequences[tally.form(plan.estimators[0])].table()


def difference(
    log: DecisionLog,
    target: Any,
    baseline: Any,
    estimator: str = "ipw",
    interval: str = "betting",
    confidence: float = 0.95,
    reward_range: tuple[float, float] = (0.0, 1.0),
    *,
    regressor: Any = None,
    missing: str = "skip",
) -> pa.Table:
    """How much more would `target` have earned than `baseline`? One row like `evaluate`'s, valid at any time.

    With rewards scaled to [0, 1] and weights w, v of the two, (w r + v (1 − r))/2 ≥ 0 has mean (1 + Δ)/2
    for the difference Δ of the values, and the reverse (1 − Δ)/2: the same sequences apply.
    """
    checks.option("estimator", estimator, ("ipw", "dr"))
    checks.option("interval", interval, KINDS)
    if estimator == "dr":
        checks.option("interval", interval, ("betting", "bernstein"))
        log.require(["probabilities"], "a doubly robust sequence")
    pair = [as_target(target), as_target(baseline)]
    plan = Plan(log, pair, as_estimators(estimator), interval, confidence, reward_range)
    bounds = ValueSequence(interval, plan.confidence, plan.reward_range, difference=True)
    spread = np.zeros(2)
    for one, other in plan.stream(regressor=regressor, missing=missing):
        floor = bounds.floors(len(one.rounds)) if estimator == "dr" else None
        gain = _unbiased(estimator, one.sample) - _unbiased(estimator, other.sample)
        below, above = one.outcomes(estimator, floor)
        other_below, other_above = other.outcomes(estimator, floor)
        bounds.add(gain, 0.5 * (below + other_above), 0.5 * (above + other_below), floor)
        gap = one.weight - other.weight
        spread += [np.abs(gap).sum(), (gap**2).sum()]
    low, high = bounds.bounds
    effective = float(spread[0] ** 2 / spread[1]) if spread[1] else 0.0
    name = f"{pair[0].name} − {pair[1].name}"
    row = (name, estimator, bounds.estimate, low, high, bounds.count, effective, VALID[interval])
    return pa.table({key: [value] for key, value in zip(RESULT.names, row, strict=True)}, schema=RESULT)


class Tally:
    """Everything one target needs, absorbed batch by batch in memory that does not grow."""

    def __init__(self, plan: Plan, target: Target, samples: int, seed: int):
        self.plan, self.target = plan, target
        self.moments = [Moments() for _ in plan.estimators]
        self.bootstraps = (
            [Bootstrap(samples, seed) for _ in plan.estimators] if plan.interval == "bootstrap" else []
        )
        forms = sorted({self.form(estimator) for estimator in plan.estimators})
        self.stable = {form: StableVariance() for form in forms} if plan.interval == "adaptive" else {}
        self.sequences = (
            {
                form: ValueSequence(plan.interval, plan.confidence, plan.reward_range, drift=plan.drift)
                for form in forms
            }
            if plan.interval in KINDS
            else {}
        )
        self.weights = np.zeros(2)
        self.marginal_weights = np.zeros(2)

    def form(self, estimator: Estimator) -> str:
        """Which unbiased terms carry this estimator's interval."""
        if isinstance(estimator, MarginalIPW):
            return "mips"
        possible = self.plan.dr_sequence or self.plan.interval == "adaptive"
        return "dr" if estimator.model and possible else "ipw"

    def add(self, answer: Answer) -> None:
        """Absorb one batch."""
        sample = answer.sample
        self.weights += [sample.weight.sum(), (sample.weight**2).sum()]
        if sample.marginal_weight is not None:
            self.marginal_weights += [sample.marginal_weight.sum(), (sample.marginal_weight**2).sum()]
        for i, estimator in enumerate(self.plan.estimators):
            terms = estimator.terms(sample)
            self.moments[i].add(*terms)
            if self.bootstraps:
                self.bootstraps[i].add(*terms)
        for form, stable in self.stable.items():
            proxy = (
                answer.proxy
                if sample.marginal_weight is None or form != "mips"
                else sample.marginal_weight**2
            )
            stable.add(_unbiased(form, sample), proxy)
        for form, bounds in self.sequences.items():
            floor = bounds.floors(len(answer.rounds)) if form == "dr" else None
            bounds.add(_unbiased(form, sample), *answer.outcomes(form, floor), floor)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """One result row per estimator."""
        for i, estimator in enumerate(self.plan.estimators):
            moments = self.moments[i]
            estimate = moments.estimate
            low, high = self._interval(i)
            if self.stable and estimator.unbiased:
                estimate = self.stable[self.form(estimator)].estimate
            total, squares = self.marginal_weights if isinstance(estimator, MarginalIPW) else self.weights
            effective = (
                float(moments.n) if estimator.name == "dm" else float(total**2 / squares) if squares else 0.0
            )
            yield (
                self.target.name,
                estimator.name,
                estimate,
                low,
                high,
                moments.n,
                effective,
                VALID[self.plan.interval],
            )

    def _interval(self, i: int) -> tuple[float, float]:
        form = self.form(self.plan.estimators[i])
        if self.plan.interval == "normal":
            return normal(self.moments[i], self.plan.confidence)
        if self.plan.interval == "bootstrap":
            return self.bootstraps[i].interval(self.plan.confidence)
        if self.plan.interval == "adaptive":
            return self.stable[form].interval(self.plan.confidence)
        if self.plan.interval == "none":
            return math.nan, math.nan
        return self.sequences[form].bounds


def _unbiased(form: str, sample: Sample) -> Floats:
    if form == "mips":
        assert sample.marginal_weight is not None
        return sample.marginal_weight * sample.reward
    if form == "ipw":
        return sample.weight * sample.reward
    assert sample.model_played is not None
    assert sample.model_value is not None
    return sample.model_value + sample.weight * (sample.reward - sample.model_played)
