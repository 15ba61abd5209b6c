"""What an evaluation needs of the log, and the stream of batches that answers it, here or on a cluster."""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from linmed import checks
from linmed.checks import Floats
from linmed.log import BATCH, DecisionLog
from linmed.ope.estimators import Estimator, MarginalIPW, Sample
from linmed.ope.intervals import VALID
from linmed.ope.regression import RewardModel, as_model
from linmed.ope.rounds import Problems, Reading, Rounds, finish, scan_rounds
from linmed.ope.sequences import KINDS, dr_terms, ipw_terms
from linmed.ope.targets import Target

Progress = Callable[[int], None]
AHEAD = 8
"""Parts of the log that an executor may work on at once."""


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
        drift: bool = False,
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
        self.drift = checks.flag("drift", drift)
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
        # Every arm's logged probability makes DR sequences possible, and stabilised weights less noisy.
        logged = "probabilities" in have
        self.dr_sequence = (
            logged and self.model and not self.drift and self.interval in ("betting", "bernstein")
        )
        if self.dr_sequence or (logged and self.full and self.interval == "adaptive"):
            columns["probabilities"] = None
        if self.model and not {"arm_count", "probabilities", "arms"} & set(columns):
            raise ValueError(
                f"a reward model needs the number of arms: {self.log.name} has no column arm_count"
            )
        return list(columns)

    def stream(
        self,
        *,
        regressor: Any = None,
        missing: str = "skip",
        adaptive: bool | None = False,
        batch: int = BATCH,
        progress: Progress | None = None,
        executor: Executor | None = None,
        reading: Reading | None = None,
    ) -> Iterator[list["Answer"]]:
        """Batch by batch in order, every target's answer; raises at the end if any row was wrong."""
        columns = list(self.columns)
        if adaptive is None and VALID[self.interval] == "independent":
            columns += [name for name in ("policy", "version") if name in self.log.columns]
        extra = tuple(dict.fromkeys(name for target in self.targets for name in target.extra))
        limits = self.reward_range if self.range_given else None
        request = Request(
            tuple(self.targets), self.full, self.model, tuple(columns), extra, limits, missing, batch
        )
        model: RewardModel | None = as_model(regressor) if self.model else None
        reading, problems = Reading() if reading is None else reading, Problems()
        parts = request.scan(self.log, reading, problems) if executor is None else None
        for rounds, chances in parts or _spread(request, self.log, executor, reading, problems):
            predicted = None if model is None else model.predict_learn(rounds)
            yield [Answer(self, rounds, chance, predicted) for chance in chances]
            if progress is not None:
                progress(reading.decisions)
        finish(self.log, problems, reading)


@dataclass(frozen=True)
class Request:
    """The part of a plan that needs no order: reading, checking, asking the targets. Travels to workers."""

    targets: tuple[Target, ...]
    full: bool
    model: bool
    columns: tuple[str, ...]
    extra: tuple[str, ...]
    reward_range: tuple[float, float] | None
    missing: str
    batch: int

    def scan(
        self, log: DecisionLog, reading: Reading, problems: Problems
    ) -> Iterator[tuple[Rounds, list[Floats]]]:
        """Rounds, and each target's probability of every arm (if `full`) or of the arm played."""
        for rounds in scan_rounds(
            log, self.columns, problems, reading, self.extra, self.reward_range, self.missing, self.batch
        ):
            chances = [
                target.probabilities(rounds, problems) if self.full else target.played(rounds, problems)
                for target in self.targets
            ]
            if not problems:
                yield rounds, chances

    def collect(self, log: DecisionLog) -> tuple[list[tuple[Rounds, list[Floats]]], Reading, Problems]:
        """All of a part of the log, without what was only needed to ask the targets."""
        reading, problems = Reading(), Problems()
        found = list(self.scan(log, reading, problems))
        if not self.full:
            found = [(dataclasses.replace(rounds, arms=None, extra={}), chances) for rounds, chances in found]
        return found, reading, problems


def _spread(
    request: Request, log: DecisionLog, executor: Executor | None, reading: Reading, problems: Problems
) -> Iterator[tuple[Rounds, list[Floats]]]:
    """The log's parts worked on by an executor, a few at a time, given back in order."""
    assert executor is not None
    if request.missing == "stop":
        raise ValueError("missing='stop' reads the log in order and cannot be spread over an executor")
    waiting: deque[Future[Any]] = deque()
    pieces = deque(log.pieces())
    while pieces or waiting:
        while pieces and len(waiting) < AHEAD:
            waiting.append(executor.submit(request.collect, pieces.popleft()))
        found, seen, wrong = waiting.popleft().result()
        problems.merge(wrong, reading.decisions)
        reading.merge(seen)
        if not problems:
            yield from found


class Answer:
    """One target's answer to one batch: its weights, its sample and the terms of sequences."""

    def __init__(self, plan: Plan, rounds: Rounds, chance: Floats, model: Floats | None):
        self.plan, self.rounds, self.model = plan, rounds, model
        self.probabilities = chance if plan.full else None
        self.weight = (chance[rounds.chosen] if plan.full else chance) / rounds.probability
        model_played = model_value = marginal = None
        if model is not None:
            model_played = model[rounds.chosen]
            model_value = rounds.sum_over_arms(chance * model)
        if plan.marginal is not None:
            marginal = self._marginal(plan.marginal)
        self.sample = Sample(self.weight, rounds.reward, model_played, model_value, marginal)

    def _marginal(self, estimator: MarginalIPW) -> Floats:
        rounds, pi = self.rounds, self.probabilities
        assert rounds.logged is not None
        assert rounds.arms is not None
        assert pi is not None
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
            assert self.model is not None
            assert self.probabilities is not None
            assert floor is not None
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


def _range(reward_range: Any) -> tuple[float, float]:
    if reward_range is None:
        return 0.0, 1.0
    if isinstance(reward_range, Mapping) or len(tuple(reward_range)) != 2:
        raise ValueError(f"reward_range must be (lowest, highest), got {reward_range!r}")
    low, high = (checks.real("reward_range", bound) for bound in reward_range)
    if not low < high:
        raise ValueError(f"reward_range must have lowest < highest, got {reward_range!r}")
    return low, high
