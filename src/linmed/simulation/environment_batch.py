"""Draw rounds for many trials at once: arrays with a replica axis behind the round axis."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.environments import Block, Environment, Priced
from linmed.environments.base import LAST_ROUND
from linmed.policies.worth import WORTH
from linmed.streams import stream
from linmed.validation import BadType, BadValue, Floats, Ints, floats, whole


class EnvironmentBatch:
    """What the environment has for R trials, block by block.

    After `advance`, for round t of the block: `arms(t)` (R,K,d) or (1,K,d), `means` one row per round
    or one for all, each flattened to R·K; `noise` (rounds, R); `delays` (rounds, R), (rounds, 1) or None.
    """

    def __init__(self, environment: Environment, generators: list[np.random.Generator]) -> None:
        self.environment = environment
        self.rounds = whole("block_rounds", environment.block_rounds)
        self.streams: list[Iterator[Block]] = [iter(environment.blocks(rng)) for rng in generators]
        self.replicas = len(generators)
        self.shape: tuple[int, ...] = ()  # (K, d), which the policy's state was made for
        self.late = False  # whether rewards may be on their way
        self.changing = False  # whether every round has arms of its own
        self.blocks: list[Block] = []
        self.priced = isinstance(environment, Priced)
        """Whether arms have values and costs, and gaps are in utility."""
        self._told = isinstance(environment, Priced) and environment.told

    def advance(self) -> int:
        """Take the next block of every trial; returns its number of rounds."""
        before, self.blocks = self.blocks, [self._next(stream) for stream in self.streams]
        if not before or any(new.arms is not old.arms for new, old in zip(self.blocks, before, strict=True)):
            self._stack_arms()
        elif any(new.means is not old.means for new, old in zip(self.blocks, before, strict=True)):
            self._stack_means()
        # Contiguous rows: one round's noise is read in one piece.
        noise = self._stack("noise", [block.noise for block in self.blocks])
        self.noise = self._numbers("noise", noise)
        self.delays = self._stack_delays()
        self.overwritten = self._stack_overwritten()
        return self.rounds

    def arms(self, t: int) -> Floats:
        """The arms of round t of this block, with values and costs where policies are told them."""
        return self._at(t) if self._told or not self.priced else self.features(t)

    def features(self, t: int) -> Floats:
        """The same without values and costs."""
        return np.ascontiguousarray(self._at(t)[..., :-WORTH]) if self.priced else self._at(t)

    def _at(self, t: int) -> Floats:
        return self._arms[t] if self.changing else self._arms

    @property
    def dim(self) -> int:
        """d: what policies learn from."""
        return self.shape[-1] - WORTH * self.priced

    def recalled(self, t: int) -> Floats:
        """The arms of round t as a policy without copies finds them when their rewards arrive."""
        offered = self.features(t)
        if self.overwritten is None or self.delays is None:
            return offered
        late: Floats = np.where(self.delays[t][:, None, None] > 0, self.overwritten[t], offered)
        return late

    def between(self, first: int, last: int) -> tuple[Floats, Floats, Floats]:
        """Arms (T,R,K,d), a 1 for T or R where they are shared, their means (T or 1,R,K) and noise (T,R)."""
        arms = self._arms[first:last] if self.changing else self._arms[None]
        means = self.means[first:last] if len(self.means) > 1 else self.means
        return arms, means.reshape(-1, self.replicas, self.count), self.noise[first:last]

    def payments(self, means: Floats, noise: Floats) -> Floats:
        """What every arm would pay (T,R,K), from what `between` gives."""
        return self._rewards(means, noise[:, :, None])

    def rewards(self, t: int, played: Ints) -> Floats:
        """What the arms played in round t pay.  played (R,) as indices r·K + arm → (R,)."""
        means = self.means[t if len(self.means) > 1 else 0].take(played)
        return self._rewards(means, self.noise[t])

    def learned(self, t: int, played: Ints, rewards: Floats) -> Floats:
        """What policies learn from these rewards: themselves, or the utility where they are not told more."""
        if self._told or not self.priced:
            return rewards
        worth = np.broadcast_to(self._at(t)[..., -WORTH:], (self.replicas, self.count, WORTH))
        values, costs = worth.reshape(-1, WORTH)[played].T
        found: Floats = values * rewards - costs
        return found

    def lateness(self, t: int, rewards: Floats) -> Ints:
        """How many rounds later the rewards (R,) of round t are known.  (R,), or (1,) for all."""
        assert self.delays is not None
        drawn: Ints = self.delays[t]
        if type(self.environment).known_after is Environment.known_after:
            return drawn
        owner = f"{type(self.environment).__name__}.known_after"
        given = np.asarray(self.environment.known_after(rewards, drawn))
        if given.shape not in {rewards.shape, (1,)}:
            raise ValueError(
                f"{owner} gave delays of shape {given.shape} for rewards of shape {rewards.shape}"
            )
        return _whole_delays(given, owner)

    def gaps(self, played: Ints) -> Floats:
        """How much worse than the best each choice was.  played (m, R), as in `rewards` → (m, R)."""
        gaps: Floats = self.best[: len(played)] - _taken(self.utility, played)
        return gaps

    def earned(self, played: Ints) -> Floats:
        """What each choice paid.  played (m, R), as in `rewards` → (m, R)."""
        return self._rewards(_taken(self.means, played), self.noise[: len(played)])

    def _next(self, stream: Iterator[Block]) -> Block:
        """One trial's next block, every part an array."""
        block = next(stream, None)
        if block is None:
            raise ValueError(f"{self._owner} ended; it must go on for ever: yield blocks in a `while True`")
        if not isinstance(block, Block):
            raise TypeError(f"{self._owner} gave {type(block).__name__}; expected Block(arms, means, noise)")
        # An array stays the same object: by that it is seen to be shared, or to be the one of the last block.
        parts = ((name, getattr(block, name)) for name in ("arms", "means", "noise"))
        lists: dict[str, Any] = {
            name: self._numbers(name, value) for name, value in parts if type(value) is not np.ndarray
        }
        return block._replace(**lists)

    def _rewards(self, means: Floats, noise: Floats) -> Floats:
        """What the environment makes of means and noise, one number for every pair of them."""
        owner = f"{type(self.environment).__name__}.rewards"
        paid = self._numbers("rewards", self.environment.rewards(means, noise), owner)
        shape = np.broadcast_shapes(means.shape, noise.shape)
        if paid.shape != shape:
            raise ValueError(
                f"{owner} gave rewards of shape {paid.shape}; for means of shape {means.shape} and noise of "
                f"shape {noise.shape}, which broadcast, expected {shape}"
            )
        return paid

    def _stack_arms(self) -> None:
        first = self.blocks[0].arms
        shared = all(block.arms is first for block in self.blocks)
        distinct = [first] if shared else [block.arms for block in self.blocks]
        for arms in distinct:
            self._check_arms(arms, first.shape)
        self.shape = first.shape[-2:]
        self.changing = first.ndim == 3
        # (rounds,1,K,d) or (1,K,d) where all trials share them
        self._arms = self._numbers("arms", np.stack(distinct, axis=1 if self.changing else 0))
        self.count = first.shape[-2]
        self._stack_means()

    def _stack_means(self) -> None:
        count, moving = (self.count,), (self.rounds, self.count)
        fitting = (moving,) if self.changing else (count, moving)  # θ* may move while the arms stay
        for block in self.blocks:
            if block.means.shape not in fitting:
                raise ValueError(
                    f"{self._owner} gave means of shape {block.means.shape} for arms of shape "
                    f"{block.arms.shape}; expected {' or '.join(map(str, fitting))}"
                )
        given = [block.means for block in self.blocks]
        if any(means.shape == moving for means in given):
            given = [np.broadcast_to(means, moving) for means in given]
        means = self._numbers("means", np.stack(given, axis=-2))  # (…, R, K)
        self.means: Floats = means.reshape(-1, self.replicas * self.count)
        if self.priced:
            means = self._arms[..., -WORTH] * means - self._arms[..., -1]
        self.utility: Floats = means.reshape(-1, self.replicas * self.count)
        self.best: Floats = means.max(axis=-1).reshape(-1, self.replicas)  # (rounds or 1, R)

    def _stack_delays(self) -> Ints | None:
        """None as long as no reward was ever late; then 0 where a block has no delays."""
        given = [block.delays for block in self.blocks]
        self.late = self.late or any(series is not None for series in given)
        if not self.late:
            return None
        at_once = np.zeros(self.rounds, dtype=np.int64)
        stacked = self._stack("delays", [at_once if one is None else np.asarray(one) for one in given])
        stacked = _whole_delays(stacked, self._owner)
        return stacked[:, :1] if (stacked == stacked[:, :1]).all() else stacked

    def _stack_overwritten(self) -> Floats | None:
        """(rounds, R, K, d), or None where no trial has any."""
        given = [block.overwritten for block in self.blocks if block.overwritten is not None]
        if not given:
            return None
        shape = (self.rounds, *self.shape)
        if len(given) < self.replicas or any(one.shape != shape for one in given):
            raise ValueError(
                f"{self._owner} must give overwritten of shape {shape} in every trial or in none"
            )
        return self._numbers("overwritten", np.stack(given, axis=1))

    def _stack(self, name: str, series: list[Any]) -> NDArray[Any]:
        """The series of all trials as columns (rounds, R)."""
        for one in series:
            if one.shape != (self.rounds,):
                wanted = f"block_rounds={self.rounds} asks for ({self.rounds},)"
                raise ValueError(f"{self._owner} gave {name} of shape {one.shape}; {wanted}")
        return np.stack(series, axis=1)

    def _check_arms(self, arms: Floats, shape: tuple[int, ...]) -> None:
        rounds = self.rounds
        if arms.ndim not in (2, 3) or 0 in arms.shape or (arms.ndim == 3 and len(arms) != rounds):
            raise ValueError(
                f"{self._owner} gave arms of shape {arms.shape}; expected (K, d), or ({rounds}, K, d) "
                "where they change"
            )
        if arms.shape != shape:
            raise ValueError(
                f"{self._owner} gave arms of shape {shape} in one trial and {arms.shape} in another"
            )
        if self.shape and arms.shape[-2:] != self.shape:
            raise ValueError(
                f"{self._owner} gave arms of shape {self.shape} in one block and {arms.shape[-2:]} in a "
                "later one; K and d must stay the same"
            )

    def _numbers(self, name: str, value: Any, owner: str = "") -> Floats:
        """`value` as `validation.floats` has it; a complaint says who gave it."""
        try:
            return floats(name, value)
        except (BadValue, BadType) as error:
            raise type(error)(name, f"{owner or self._owner}: {error}") from None

    @property
    def _owner(self) -> str:
        return f"{type(self.environment).__name__}.blocks"


def _taken(rows: Floats, played: Ints) -> Floats:
    """Take the columns played (m,R) of the rows of m rounds, or of one for all."""
    if len(rows) == 1:
        found: Floats = rows[0][played]
        return found
    return np.take_along_axis(rows[: len(played)], played, axis=1)


def _whole_delays(given: NDArray[Any], owner: str) -> Ints:
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() > LAST_ROUND:
        raise ValueError(f"{owner} gave delays that are not whole numbers from 0 to {LAST_ROUND}")
    return given.astype(np.int64)


class Observation(NamedTuple):
    """What `Policy.learn` takes."""

    features: Floats  # (m, d)
    rewards: Floats  # (m,)
    replicas: Ints  # (m,)


class Pending:
    """Observations by the round they arrive in; within a round, in the order they were made."""

    def __init__(self) -> None:
        self._due: defaultdict[int, list[Observation]] = defaultdict(list)

    def add(self, round_: int, delays: Ints, seen: Observation) -> None:
        """Keep what was observed in this round.  delays (1,) for all replicas, or (R,)."""
        if len(delays) == 1:
            self._due[round_ + int(delays[0])].append(seen)
            return
        for delay in np.unique(delays):
            late = np.flatnonzero(delays == delay)
            part = Observation(seen.features[late], seen.rewards[late], seen.replicas[late])
            self._due[round_ + int(delay)].append(part)

    def arrive(self, round_: int) -> list[Observation]:
        """What becomes known after this round."""
        return self._due.pop(round_, [])


def attainable(environment: Environment, horizon: int, trials: int, seed: int = 0) -> Floats:
    """Σ max_a ⟨θ*, a⟩ over the rounds of every trial that `simulate` plays.  (trials,)

    What a policy was expected to collect, clicks for instance, is this less its regret:
    `attainable(environment, horizon, trials, seed) - results.final("LinMED")`.

    >>> from linmed import LinMED, simulate
    >>> from linmed.environments import LargeGap
    >>> best = attainable(LargeGap(), horizon=100, trials=2)
    >>> results = simulate(LinMED(), LargeGap(), horizon=100, trials=2, progress=False)
    >>> best, bool((best - results.final("LinMED") > 0).all())
    (array([100., 100.]), True)
    """
    if not isinstance(environment, Environment):
        raise TypeError(f"environment must be an Environment, got {environment!r}")
    horizon, trials = validation.whole("horizon", horizon), validation.whole("trials", trials)
    seed = validation.whole("seed", seed, at_least=0)
    return np.array([best_of_trial(environment, horizon, seed, trial) for trial in range(trials)])


def best_of_trial(environment: Environment, horizon: int, seed: int, trial: int) -> float:
    """The same of one trial."""
    environments = EnvironmentBatch(environment, [stream(seed, "environment", trial)])
    total, done = 0.0, 0
    while done < horizon:
        rounds = min(environments.advance(), horizon - done)
        best = environments.best[:rounds, 0]  # one for all rounds where the arms stay the same
        total += float(best.sum()) if len(best) == rounds else rounds * float(best[0])
        done += rounds
    return total
