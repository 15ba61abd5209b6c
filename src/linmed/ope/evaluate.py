"""`evaluate`: one pass over a log, every target × estimator with its interval."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from linmed import checks
from linmed.checks import Floats
from linmed.ope.estimators import Estimator, MarginalIPW, Moments, Sample, as_estimators
from linmed.ope.intervals import VALID, Bootstrap, StableVariance, normal, warn
from linmed.ope.log import BATCH, DecisionLog
from linmed.ope.regression import RewardModel, as_model
from linmed.ope.rounds import Problems, Reading, Rounds, read_rounds
from linmed.ope.sequences import KINDS, ValueSequence, dr_terms, ipw_terms
from linmed.ope.targets import Target, as_target, as_targets

Progress = Callable[[int], None]

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
    samples: int = 200,
    seed: int = 0,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> pa.Table:
    """What would each target have earned per decision, and how sure are we?

    `targets`: one, a sequence or a {name: target} mapping; see `as_target`. `estimators`: names of
    `ESTIMATORS` or instances. `interval`: "betting", "bernstein", "mixture" (valid at any time, need
    `reward_range`), "adaptive" (logging policy learned), "normal", "bootstrap" (it did not), "none".

    An interval is about the target's value, whichever estimate stands beside it: with a sequence, or
    with "adaptive", the biased estimators get the interval of the unbiased form they are made from (that
    of IPW without a reward model, that of DR with one). "adaptive" also replaces IPW's and DR's estimate
    by the stabilised one its interval is centred on.

    `regressor`: reward model, ridge by default; see `Refitted`. `adaptive`: whether the logging policy
    learned; None asks the log's `version` and `policy` columns. `missing`: decisions without a reward are
    left out ("skip": right if lateness does not depend on the reward) or end the log ("stop").
    `progress` is called with the number of decisions read so far.

    Returns one row per target × estimator: target, estimator, estimate, lower, upper, n, effective_n
    ((Σw)²/Σw²), valid ("independent", "adaptive" or "any time": what the interval needs).
    """
    plan = Plan(log, as_targets(targets), as_estimators(estimators), interval, confidence, reward_range)
    if not (adaptive is None or isinstance(adaptive, bool)):
        raise TypeError(f"adaptive must be True, False or None, got {adaptive!r}")
    tallies = [Tally(plan, target, checks.whole("samples", samples, 2), seed) for target in plan.targets]
    reading = Reading()
    for rounds, model, problems in plan.rounds(regressor, missing, reading, batch, adaptive):
        for tally in tallies:
            tally.add(rounds, model, problems)
        if progress is not None:
            progress(reading.decisions)
    if VALID[interval] == "independent" and (reading.adaptive if adaptive is None else adaptive):
        warn(
            f"interval={interval!r} holds for independent decisions, but the logging policy changed along "
            f"{log.name}: use 'adaptive', or 'betting' with a reward_range"
        )
    if VALID[interval] == "independent" and any(estimator.name == "dm" for estimator in plan.estimators):
        warn(
            f"interval={interval!r} of the direct method shows how the model's predictions vary, not how wrong "
            "the model is: use 'dr'"
        )
    rows = [row for tally in tallies for row in tally.rows()]
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
    progress: Progress | None = None,
) -> pa.Table:
    """The estimate and its confidence sequence over time: n, estimate, lower, upper at growing n.

    `estimator` is "ipw" or "dr"; `interval` one of the sequences.
    """
    checks.option("estimator", estimator, ("ipw", "dr"))
    checks.option("interval", interval, KINDS)
    plan = Plan(log, [as_target(target)], as_estimators(estimator), interval, confidence, reward_range)
    tally = Tally(plan, plan.targets[0], 2, 0)
    reading = Reading()
    for rounds, model, problems in plan.rounds(regressor, missing, reading, BATCH, False):
        tally.add(rounds, model, problems)
        if progress is not None:
            progress(reading.decisions)
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
    """How much more would `target` have earned than `baseline`? One row as `evaluate` gives, valid at any time.

    With rewards scaled to [0, 1] and weights w, v of the two, (w r + v (1 − r))/2 ≥ 0 has mean (1 + Δ)/2
    for the difference Δ of the values, and the reverse (1 − Δ)/2: the same sequences apply.
    """
    checks.option("estimator", estimator, ("ipw", "dr"))
    checks.option("interval", interval, KINDS)
    pair = [as_target(target), as_target(baseline)]
    plan = Plan(log, pair, as_estimators(estimator), interval, confidence, reward_range)
    bounds = ValueSequence(interval, plan.confidence, plan.reward_range, difference=True)
    reading = Reading()
    spread = np.zeros(2)
    for rounds, model, problems in plan.rounds(regressor, missing, reading, BATCH, False):
        floor = bounds.floors(len(rounds)) if estimator == "dr" else None
        parts = []
        for one in pair:
            answer = Answer(plan, one, rounds, model, problems)
            if not problems:
                parts.append((plan.estimators[0].terms(answer.sample)[0], *answer.outcomes(estimator, floor)))
        if problems:
            continue
        (x, below, above), (x2, below2, above2) = parts
        bounds.add(x - x2, 0.5 * (below + above2), 0.5 * (above + below2), floor)
        gap = answer_gap(plan, pair, rounds, problems)
        spread += [np.abs(gap).sum(), (gap**2).sum()]
    low, high = bounds.bounds
    effective = float(spread[0] ** 2 / spread[1]) if spread[1] else 0.0
    name = f"{pair[0].name} − {pair[1].name}"
    row = (name, estimator, bounds.estimate, low, high, bounds.count, effective, VALID[interval])
    return pa.table({key: [value] for key, value in zip(RESULT.names, row, strict=True)}, schema=RESULT)


class Plan:
    """The checked request and the columns it needs."""

    def __init__(
        self,
        log: DecisionLog,
        targets: list[Target],
        estimators: list[Estimator],
        interval: str,
        confidence: float,
        reward_range: tuple[float, float] | None,
    ):
        self.log = log
        self.targets = targets
        self.estimators = estimators
        self.interval = checks.option("interval", interval, tuple(VALID))
        self.confidence = checks.real("confidence", confidence)
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
        self.range_given = reward_range is not None
        self.reward_range = _range(reward_range)
        if interval in KINDS and reward_range is None:
            raise ValueError(f"interval={interval!r} needs reward_range=(lowest, highest possible reward)")
        self.model = any(estimator.model for estimator in estimators)
        self.marginal = next((e for e in estimators if isinstance(e, MarginalIPW)), None)
        if sum(isinstance(e, MarginalIPW) for e in estimators) > 1:
            raise ValueError("only one mips estimator at a time")
        self.full = self.model or self.marginal is not None
        self.columns = self._columns()

    def _columns(self) -> list[str]:
        have = self.log.columns
        columns: dict[str, None] = {}
        for target in self.targets:
            needed = target.columns if self.full else target.played_columns
            self.log.require([*needed, *target.extra], f"target {target.name!r}")
            columns.update(dict.fromkeys(needed))
        if self.full and "arm_count" in have:
            columns["arm_count"] = None
        if self.full and "arms" in have:
            columns["arms"] = None
        if self.marginal is not None:
            self.log.require(["probabilities", "arms"], "mips")
            columns["probabilities"] = None
        # With every arm's logged probability, DR sequences and stabilised weights become possible.
        self.logged = "probabilities" in have and (
            (self.interval in KINDS and self.model and self.interval != "mixture")
            or (self.interval == "adaptive" and self.full)
            or self.marginal is not None
        )
        if self.logged:
            columns["probabilities"] = None
        if self.model and not {"arm_count", "probabilities", "arms"} & set(columns):
            raise ValueError(
                f"a reward model needs the number of arms: {self.log.name} has no column arm_count"
            )
        return list(columns)

    def rounds(
        self, regressor: Any, missing: str, reading: Reading, batch: int, adaptive: bool | None
    ) -> Iterator[tuple[Rounds, Floats | None, Problems]]:
        """Checked rounds, and the reward model's prediction of every arm."""
        problems = Problems()
        columns = list(self.columns)
        if adaptive is None and VALID[self.interval] == "independent":
            columns += [name for name in ("policy", "version") if name in self.log.columns]
        extra = list(dict.fromkeys(name for target in self.targets for name in target.extra))
        model: RewardModel | None = as_model(regressor) if self.model else None
        limits = self.reward_range if self.range_given else None
        for rounds in read_rounds(
            self.log,
            columns,
            problems,
            extra=extra,
            reward_range=limits,
            missing=missing,
            reading=reading,
            rows=batch,
        ):
            yield rounds, None if model is None else model.predict_learn(rounds), problems


class Answer:
    """One target's answer to one batch: weights, sample and the terms of sequences."""

    def __init__(self, plan: Plan, target: Target, rounds: Rounds, model: Floats | None, problems: Problems):
        self.plan, self.rounds, self.model = plan, rounds, model
        self.probabilities: Floats | None = None
        if plan.full:
            self.probabilities = target.probabilities(rounds, problems)
            played = np.zeros(len(rounds)) if problems else self.probabilities[rounds.chosen]
        else:
            played = target.played(rounds, problems)
        if problems:
            return
        self.weight = played / rounds.probability
        model_played = model_value = marginal = None
        if model is not None and self.probabilities is not None:
            model_played = model[rounds.chosen]
            model_value = rounds.sum_over_arms(self.probabilities * model)
        if plan.marginal is not None:
            marginal = self._marginal(plan.marginal)
        self.sample = Sample(self.weight, rounds.reward, model_played, model_value, marginal)

    def _marginal(self, estimator: MarginalIPW) -> Floats:
        rounds, pi = self.rounds, self.probabilities
        assert rounds.logged is not None and rounds.arms is not None and pi is not None
        o = rounds.offsets
        return np.array(
            [
                estimator.marginal(pi[i:j], rounds.logged[i:j], rounds.arms[i:j], arm)
                for i, j, arm in zip(o[:-1], o[1:], rounds.arm, strict=True)
            ]
        )

    def outcomes(self, form: str, floor: Floats | None) -> tuple[Floats, Floats]:
        """Terms with means ν and 1 − ν on the unit range."""
        low, high = self.plan.reward_range
        reward = (self.rounds.reward - low) / (high - low)
        if form == "dr":
            assert self.model is not None and self.probabilities is not None and floor is not None
            model = np.clip((self.model - low) / (high - low), 0.0, 1.0)
            return dr_terms(self.rounds, self.probabilities, self.weight, reward, model, floor)
        weight = self.sample.marginal_weight if form == "mips" else self.weight
        assert weight is not None
        return ipw_terms(weight, reward)

    @property
    def proxy(self) -> Floats:
        """Σ_a π(a)²/p(a), the size of the terms' conditional variance, or w² where p(a) is unknown."""
        if self.rounds.logged is None or self.probabilities is None:
            return self.weight**2
        positive = self.rounds.logged > 0
        ratio = np.zeros(positive.size)
        np.divide(self.probabilities**2, self.rounds.logged, out=ratio, where=positive)
        return self.rounds.sum_over_arms(ratio)


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
            {form: ValueSequence(plan.interval, plan.confidence, plan.reward_range) for form in forms}
            if plan.interval in KINDS
            else {}
        )
        self.weights = np.zeros(2)
        self.marginal_weights = np.zeros(2)

    def form(self, estimator: Estimator) -> str:
        """Which unbiased terms carry this estimator's interval."""
        if isinstance(estimator, MarginalIPW):
            return "mips"
        possible = self.plan.logged or self.plan.interval == "adaptive"
        return "dr" if estimator.model and possible else "ipw"

    def add(self, rounds: Rounds, model: Floats | None, problems: Problems) -> None:
        """Absorb one batch."""
        answer = Answer(self.plan, self.target, rounds, model, problems)
        if problems:
            return
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
            floor = bounds.floors(len(rounds)) if form == "dr" else None
            bounds.add(_unbiased(form, sample), *answer.outcomes(form, floor), floor)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """One result row per estimator."""
        for i, estimator in enumerate(self.plan.estimators):
            moments = self.moments[i]
            estimate = moments.estimate
            low, high = self._interval(i)
            if self.stable and estimator.unbiased:
                estimate = self.stable[self.form(estimator)].estimate
            if math.isnan(low) and self.plan.interval != "none":
                warn(
                    f"no value of target {self.target.name!r} is compatible with the log at confidence "
                    f"{self.plan.confidence:g}: its probabilities are wrong, or the value changed over time"
                )
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
    assert sample.model_played is not None and sample.model_value is not None
    return sample.model_value + sample.weight * (sample.reward - sample.model_played)


def answer_gap(plan: Plan, pair: list[Target], rounds: Rounds, problems: Problems) -> Floats:
    """w − v of the two targets."""
    first, second = (target.played(rounds, problems) for target in pair)
    return (first - second) / rounds.probability


def _range(reward_range: Any) -> tuple[float, float]:
    if reward_range is None:
        return 0.0, 1.0
    if isinstance(reward_range, Mapping) or len(tuple(reward_range)) != 2:
        raise ValueError(f"reward_range must be (lowest, highest), got {reward_range!r}")
    low, high = (checks.real("reward_range", bound) for bound in reward_range)
    if not low < high:
        raise ValueError(f"reward_range must have lowest < highest, got {reward_range!r}")
    return low, high
