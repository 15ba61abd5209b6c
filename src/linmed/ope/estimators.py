"""Estimators of a target's value from logged decisions.

Notation: decision t offered arms with features, the logging policy played a_t with probability p_t(a_t),
the reward was r_t; the target π would have played a with probability π_t(a). The weight is
w_t = π_t(a_t) / p_t(a_t); q̂_t is a reward model fitted on decisions before t only, and
q̂_t(π) = Σ_a π_t(a) q̂_t(a).

Every estimate is  mean(x) + Σ y / Σ z  for three numbers per decision, which `intervals.Moments` sums up.

Reward models are fitted in time order: that keeps doubly robust terms unbiased, and their sequences valid, on
logs of policies that learn.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.core import core
from linmed.ope.intervals import Moments, Terms
from linmed.ope.scan import Rounds
from linmed.policies import ridge
from linmed.policies.glm import LogisticMED
from linmed.validation import BadType, BadValue, Floats, Ints


def ipw(reward: ArrayLike, probability: ArrayLike, target: ArrayLike, axis: int = -1) -> Any:
    """Weight by inverse probability on arrays: mean of π(a)/p(a)·r along `axis`, the value of `target`.

    Shapes broadcast, so (trials, n) evaluates many logs at once. With estimated probabilities in place of
    exact ones the estimate is biased by 1/p̂: that is a property of the log, not of this function.

    >>> round(float(ipw([1.0, 0.0, 1.0], [0.5, 0.25, 0.5], 0.5)), 12)
    0.666666666667
    """
    p, pi = np.asarray(probability, dtype=np.float64), np.asarray(target, dtype=np.float64)
    wrong_p, wrong_pi = ~((p > 0) & (p <= 1)), ~((pi >= 0) & (pi <= 1))
    for name, bounds, array, wrong in (
        ("probability", "(0, 1]", p, wrong_p),
        ("target", "[0, 1]", pi, wrong_pi),
    ):
        if wrong.any():
            where = tuple(np.argwhere(wrong)[0].tolist())
            first = f"entry {where} is {array[where]} ({int(wrong.sum())} such in all)"
            raise BadValue(name, f"{name} must lie in {bounds}: {first}")
    return np.mean(pi / p * np.asarray(reward, dtype=np.float64), axis=axis)


class Sample(NamedTuple):
    """What estimators see of n decisions, each (n,).

    >>> IPW()(Sample(weight=np.array([2.0, 0.0]), reward=np.array([1.0, 1.0])))
    1.0
    """

    weight: Floats
    reward: Floats
    model_played: Floats | None = None  # q̂_t(a_t)
    model_value: Floats | None = None  # q̂_t(π)


@dataclass(frozen=True)
class Estimator(ABC):
    """A rule that turns a sample into (x, y, z).

    >>> @dataclass(frozen=True)
    ... class Truncated(Estimator):  # without the decisions of large weight
    ...     name: ClassVar[str] = "truncated"
    ...     unbiased: ClassVar[bool] = False
    ...
    ...     def terms(self, sample):
    ...         return np.where(sample.weight < 10.0, sample.weight * sample.reward, 0.0), None, None
    >>> Truncated()(Sample(weight=np.array([2.0, 20.0]), reward=np.array([1.0, 1.0])))
    1.0
    """

    name: ClassVar[str]
    model: ClassVar[bool] = False
    """Whether it uses the reward model."""
    unbiased: ClassVar[bool] = True
    """Whether the estimate is a mean of terms with the value as expectation, also on adaptive logs."""

    @abstractmethod
    def terms(self, sample: Sample) -> Terms:
        """Give (x, y, z) of every decision."""

    def _kept(self, weight: Floats) -> Floats:
        return weight  # all of it, unless an estimator cuts or shrinks weights

    def __call__(self, sample: Sample) -> float:
        """Estimate on arrays."""
        moments = Moments()
        moments.add(*self.terms(sample))
        return moments.estimate


@dataclass(frozen=True)
class IPW(Estimator):
    """Inverse-probability weighting: (1/n) Σ w_t r_t.

    Unbiased if every arm the target may play had positive logged probability and the probabilities are
    exact; nothing is assumed of the rewards or of how the logging policy learned.
    Horvitz & Thompson (1952); Precup, Sutton & Singh (2000).

    >>> sample = Sample(weight=np.array([2.0, 0.5]), reward=np.array([1.0, 2.0]))
    >>> IPW()(sample), IPW().terms(sample)[0]
    (1.5, array([2., 1.]))
    """

    name: ClassVar[str] = "ipw"

    def terms(self, sample: Sample) -> Terms:
        """Give x = w r, of a weight that may be cut."""
        return self._kept(sample.weight) * sample.reward, None, None


@dataclass(frozen=True)
class ClippedIPW(IPW):
    """IPW with weights cut at `limit`: (1/n) Σ min(w_t, M) r_t.

    Biased towards zero by the mass above M, with bounded terms: a lower estimate for rewards ≥ 0.
    Ionides (2008); Bottou et al. (2013).

    >>> ClippedIPW(limit=3.0)(Sample(weight=np.array([2.0, 8.0]), reward=np.array([0.5, 1.0])))  # (1 + 3) / 2
    2.0
    """

    name: ClassVar[str] = "clipped"
    unbiased: ClassVar[bool] = False
    limit: float = 10.0

    def __post_init__(self) -> None:
        validation.positive("limit", self.limit)

    def _kept(self, weight: Floats) -> Floats:
        return np.minimum(weight, self.limit)


@dataclass(frozen=True)
class SNIPW(Estimator):
    """Self-normalised IPW: Σ w_t r_t / Σ w_t.

    Consistent under IPW's assumptions, biased by O(1/n); stays within the range of the rewards and does
    not change when a constant is added to them. Swaminathan & Joachims (2015).

    >>> SNIPW()(Sample(weight=np.array([1.0, 0.0, 3.0]), reward=np.array([1.0, 1.0, 0.0])))
    0.25
    """

    name: ClassVar[str] = "snipw"
    unbiased: ClassVar[bool] = False

    def terms(self, sample: Sample) -> Terms:
        """Give y = w r, z = w."""
        return None, sample.weight * sample.reward, sample.weight


@dataclass(frozen=True)
class ModelEstimator(Estimator):
    """An estimator with a reward model."""

    model: ClassVar[bool] = True

    def predictions(self, sample: Sample) -> tuple[Floats, Floats]:
        """Give q̂(a) and q̂(π)."""
        if sample.model_played is None or sample.model_value is None:
            message = f"{self.name} needs a reward model's predictions: model_played and model_value"
            raise BadValue("sample", message)
        return sample.model_played, sample.model_value


@dataclass(frozen=True)
class DM(ModelEstimator):
    """Direct method: (1/n) Σ q̂_t(π).

    Uses no weights, so needs no overlap; it is as biased as the reward model is wrong. The model of
    decision t has seen decisions before t only. Beygelzimer & Langford (2009).

    >>> q = {"model_played": np.array([0.5, 0.5]), "model_value": np.array([0.6, 0.4])}
    >>> DM()(Sample(weight=np.array([2.0, 0.0]), reward=np.array([1.0, 0.0]), **q))
    0.5
    """

    name: ClassVar[str] = "dm"
    unbiased: ClassVar[bool] = False

    def terms(self, sample: Sample) -> Terms:
        """Give x = q̂(π)."""
        return self.predictions(sample)[1], None, None


@dataclass(frozen=True)
class DR(ModelEstimator):
    """Doubly robust: (1/n) Σ [ q̂_t(π) + w_t (r_t − q̂_t(a_t)) ].

    Unbiased with exact probabilities whatever the model, because the model only knows the past; a good
    model reduces the variance. Dudík, Langford & Li (2011); on adaptive logs Hadad et al. (2021).

    >>> q = {"model_played": np.array([0.5, 0.5]), "model_value": np.array([0.6, 0.4])}
    >>> DR()(Sample(weight=np.array([2.0, 0.0]), reward=np.array([1.0, 0.0]), **q))
    1.0
    """

    name: ClassVar[str] = "dr"

    def terms(self, sample: Sample) -> Terms:
        """Give x = q̂(π) + w (r − q̂(a)), of a weight that may be cut or shrunk."""
        played, value = self.predictions(sample)
        return value + self._kept(sample.weight) * (sample.reward - played), None, None


@dataclass(frozen=True)
class SNDR(ModelEstimator):
    """Self-normalised doubly robust: (1/n) Σ q̂_t(π) + Σ w_t (r_t − q̂_t(a_t)) / Σ w_t.

    Consistent under DR's assumptions. Kallus & Uehara (2019).

    >>> q = {"model_played": np.array([0.5, 0.5]), "model_value": np.array([0.6, 0.4])}
    >>> SNDR()(Sample(weight=np.array([3.0, 1.0]), reward=np.array([1.0, 0.0]), **q))
    0.75
    """

    name: ClassVar[str] = "sndr"
    unbiased: ClassVar[bool] = False

    def terms(self, sample: Sample) -> Terms:
        """Give x = q̂(π), y = w (r − q̂(a)), z = w."""
        played, value = self.predictions(sample)
        return value, sample.weight * (sample.reward - played), sample.weight


@dataclass(frozen=True)
class SwitchDR(DR):
    """Switch-DR: (1/n) Σ [ q̂_t(π) + w_t 1{w_t ≤ τ} (r_t − q̂_t(a_t)) ].

    Trusts the model alone where weights exceed `threshold` τ; biased by the model's error there.
    Wang, Agarwal & Dudík (2017).

    >>> q = {"model_played": np.array([0.5, 0.5]), "model_value": np.array([0.6, 0.4])}
    >>> sample = Sample(weight=np.array([2.0, 20.0]), reward=np.array([1.0, 1.0]), **q)
    >>> SwitchDR(threshold=10.0)(sample), SwitchDR(threshold=50.0)(sample)
    (1.0, 6.0)
    """

    name: ClassVar[str] = "switch"
    unbiased: ClassVar[bool] = False
    threshold: float = 10.0

    def __post_init__(self) -> None:
        validation.positive("threshold", self.threshold)

    def _kept(self, weight: Floats) -> Floats:
        return np.where(weight <= self.threshold, weight, 0.0)


@dataclass(frozen=True)
class DRos(DR):
    """DR with optimistic shrinkage: (1/n) Σ [ q̂_t(π) + (λ w_t / (w_t² + λ)) (r_t − q̂_t(a_t)) ].

    λ = `shrinkage` → ∞ is DR, λ → 0 the direct method; biased by the model's error where weights are
    large against √λ. Su, Dimakopoulou, Krishnamurthy & Dudík (2020).

    >>> q = {"model_played": np.array([0.5, 0.5]), "model_value": np.array([0.6, 0.4])}
    >>> sample = Sample(weight=np.array([2.0, 20.0]), reward=np.array([1.0, 1.0]), **q)
    >>> [round(DRos(shrinkage=size)(sample), 3) for size in (0.01, 100.0, 1e9)]
    [0.501, 1.981, 6.0]
    """

    name: ClassVar[str] = "dros"
    unbiased: ClassVar[bool] = False
    shrinkage: float = 100.0

    def __post_init__(self) -> None:
        validation.positive("shrinkage", self.shrinkage)

    def _kept(self, weight: Floats) -> Floats:
        return self.shrinkage * weight / (weight**2 + self.shrinkage)


ESTIMATORS: dict[str, type[Estimator]] = {
    kind.name: kind for kind in (IPW, ClippedIPW, SNIPW, DM, DR, SNDR, SwitchDR, DRos)
}


def as_estimators(estimators: Any) -> dict[str, Estimator]:
    """One, several or a {label: estimator} mapping, of names or instances; by distinct labels.

    A label is the estimator's name, with its parameters where there are several of that kind.
    """
    if isinstance(estimators, Mapping):
        return {str(label): _estimator(one) for label, one in estimators.items()} or as_estimators([])
    several = list(estimators) if isinstance(estimators, Iterable) else [estimators]
    several = [estimators] if isinstance(estimators, str) else several
    if not several:
        raise BadValue("estimators", "estimators is empty: at least one estimator is needed")
    found = [_estimator(one) for one in several]
    kinds = [one.name for one in found]
    labels: dict[str, Estimator] = {}
    for i, one in enumerate(found):
        if one in found[:i]:
            raise BadValue("estimators", f"estimators must differ, {several[i]!r} is given twice")
        label = one.name if kinds.count(one.name) == 1 else one.name + _parameters(one)
        number = kinds[: i + 1].count(one.name)
        labels[f"{label} #{number}" if label in labels else label] = one
    return labels


def _estimator(one: Any) -> Estimator:
    if isinstance(one, Estimator):
        return one
    if isinstance(one, str) and one in ESTIMATORS:
        return ESTIMATORS[one]()
    known = ", ".join(ESTIMATORS)
    raise BadValue("estimators", f"estimators must be among {known} or instances, got {one!r}")


def _parameters(estimator: Estimator) -> str:
    """` (limit=5.0)`; what has no short text of its own is called by its kind."""
    found = []
    for one in fields(estimator):
        value = getattr(estimator, one.name)
        text = repr(value)
        if value is not None:
            kind = str(getattr(value, "__name__", type(value).__name__))
            found.append(f"{one.name}={kind if ' at 0x' in text or len(text) > 40 else text}")
    return f" ({', '.join(found)})" if found else ""


FIRST_FIT = 32
GROWTH = 1.5


class RewardModel(Protocol):
    """Predicts before it learns."""

    def predict_learn(self, rounds: Rounds) -> Floats:
        """Predict q̂_t of every arm of every decision, flat (ΣK,); then learn from these decisions."""


def predictions(model: RewardModel, rounds: Rounds) -> Floats:
    """Predict what decisions are judged by (ΣK,): of the utility, value · q̂ − cost, with q̂ of the reward."""
    if rounds.paid is None:
        return model.predict_learn(rounds)
    assert rounds.worth is not None
    values, costs = rounds.worth
    return values * model.predict_learn(replace(rounds, reward=rounds.paid)) - costs


class Ridge:
    """Ridge regression on the arms' features and a constant, updated after every decision; it starts at 0.

    Without features in the log each arm has a parameter of its own: its mean reward so far, shrunk by λ.

    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> found = evaluate(log, "arm:1", "dr", regressor=Ridge(penalty=0.1))
    >>> round(found["estimate"][0].as_py(), 2)
    1.0
    """

    _drawn = False
    """Whether an arm's mean is drawn to that of all."""

    def __init__(self, penalty: float = 1.0):
        self.penalty = validation.positive("penalty", penalty)
        self._state: Any = None
        self._sums = np.zeros(0)
        self._counts = np.zeros(0)

    def predict_learn(self, rounds: Rounds) -> Floats:
        """Predict and learn in one pass of the core."""
        out = np.empty(rounds.offsets[-1])
        if rounds.arms is None:
            self._by_arm(rounds, rounds.offsets, out)
        else:
            belief, rows = self._belief(rounds.arms)
            core.predict_learn(belief, rows, rounds.offsets, rounds.chosen, rounds.reward, out)
        return out

    def _belief(self, arms: Floats) -> tuple[Any, Floats]:
        """The core's belief, and the rows that it is asked for."""
        if self._state is None:
            self._state = ridge.start_ridge(1, arms.shape[1] + 1, self.penalty)
        return core.Ridge(*self._state), np.concatenate([arms, np.ones((arms.shape[0], 1))], axis=1)

    def _by_arm(self, rounds: Rounds, offsets: Ints, out: Floats) -> None:
        """Means of every arm so far, shrunk towards 0 or drawn towards that of all arms."""
        extra = int(np.max(np.diff(offsets))) - self._sums.size
        if extra > 0:
            self._sums = np.concatenate([self._sums, np.zeros(extra)])
            self._counts = np.concatenate([self._counts, np.zeros(extra)])
        core.means_predict_learn(
            self._sums, self._counts, self.penalty, self._drawn, offsets, rounds.arm, rounds.reward, out
        )


class Logistic(Ridge):
    """Logistic regression on the arms' features, with an intercept of its own: for rewards between 0 and 1.

    One pass, updated after every decision as `LogisticMED` is; predictions are rates, so they stay between 0
    and 1. Without features in the log each arm's rate so far is drawn towards that of all arms.

    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> round(evaluate(log, "arm:1", "dr", regressor=Logistic())["estimate"][0].as_py(), 2)
    1.0
    """

    _drawn = True

    def __init__(self, penalty: float = 1.0):
        super().__init__(penalty)
        self._policy = LogisticMED(ridge=self.penalty)

    def predict_learn(self, rounds: Rounds) -> Floats:
        """Predict and learn in one pass of the core; rewards that are no clicks are refused."""
        if not (clicks := self._policy.accepts(rounds.reward)).all():
            said = "regressor='logistic' is for rewards between 0 and 1, as clicks are, got "
            raise BadValue("regressor", f"{said}{rounds.reward[~clicks][0]:g}: use 'ridge'")
        return super().predict_learn(rounds)

    def _belief(self, arms: Floats) -> tuple[Any, Floats]:
        if self._state is None:
            self._state = self._policy.start(1, arms.shape[1])
        return core.Glm(*self._state.parts()), arms


class Refitted:
    """Any regressor with `fit(X, y)` and `predict(X)`, refitted on the whole past at growing intervals.

    It is first fitted after 32 decisions and again whenever their number has grown by half; until the
    first fit q̂ = 0. The past is kept in memory. Without features in the log X is one-hot in the arm.

    >>> class Constant:
    ...     def fit(self, X, y):
    ...         self.level = y.mean()
    ...
    ...     def predict(self, X):
    ...         return [self.level] * len(X)
    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> round(evaluate(log, "arm:1", "dr", regressor=Refitted(Constant()))["estimate"][0].as_py(), 2)
    1.0
    """

    def __init__(self, regressor: Any):
        for method in ("fit", "predict"):
            if not callable(getattr(regressor, method, None)):
                message = f"regressor must have fit(X, y) and predict(X), {regressor!r} has no {method}"
                raise BadType("regressor", message)
        self._prototype = regressor
        self._fitted: Any = None
        self._X: list[Floats] = []
        self._y: list[Floats] = []
        self._n = 0
        self._next = FIRST_FIT

    def predict_learn(self, rounds: Rounds) -> Floats:
        """Predict block by block, each by the regressor of the blocks before."""
        arms = rounds.arms if rounds.arms is not None else self._one_hot(rounds)
        offsets, chosen = rounds.offsets, rounds.chosen
        out = np.zeros(offsets[-1])
        done = 0
        while done < len(rounds):
            stop = min(len(rounds), done + self._next - self._n)
            if self._fitted is not None:
                part = slice(offsets[done], offsets[stop])
                out[part] = np.asarray(self._fitted.predict(arms[part]), dtype=np.float64).reshape(-1)
            self._X.append(arms[chosen[done:stop]])
            self._y.append(rounds.reward[done:stop])
            self._n += stop - done
            done = stop
            if self._n == self._next:
                self._fitted = copy.deepcopy(self._prototype)
                self._fitted.fit(np.concatenate(self._X), np.concatenate(self._y))
                self._next = int(self._n * GROWTH)
        return out

    def _one_hot(self, rounds: Rounds) -> Floats:
        counts = np.unique(np.diff(rounds.offsets))
        if counts.size > 1:
            raise BadValue(
                "regressor",
                "a regressor on a log without arm features needs the same number of arms in every decision, "
                f"got between {counts[0]} and {counts[-1]}",
            )
        return np.eye(int(counts[0]))[rounds.arm_number]


NAMED = {"ridge": Ridge, "logistic": Logistic}


def as_model(regressor: Any) -> RewardModel:
    """None → ridge; a name or one of these models, a fresh copy; any regressor → `Refitted`."""
    if regressor is None:
        return Ridge()
    if isinstance(regressor, str):
        return NAMED[validation.option("regressor", regressor, tuple(NAMED))]()
    if isinstance(regressor, (Ridge, Refitted)):
        return copy.deepcopy(regressor)
    return Refitted(regressor)
