"""One block of rounds for many trials at once: arrays with a replica axis behind the round axis."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linmed.checks import Floats, Ints, for_kernels
from linmed.environments import Block, Environment


class Worlds:
    """What the environment has for R trials, block by block.

    After `advance`, for round t of the block: `arms(t)` (R,K,d) or (1,K,d), `means` one row per round
    or one for all, each flattened to R·K; `noise` (rounds, R); `delays` (rounds, R), (rounds, 1) or None.
    """

    def __init__(self, environment: Environment, generators: list[np.random.Generator]) -> None:
        self.environment = environment
        self.streams: list[Iterator[Block]] = [environment.blocks(rng) for rng in generators]
        self.replicas = len(generators)
        self.changing = False  # whether every round has arms of its own
        self.blocks: list[Block] = []

    def advance(self) -> int:
        """Take the next block of every trial; returns its number of rounds."""
        before, self.blocks = self.blocks, [next(stream) for stream in self.streams]
        if not before or any(new.arms is not old.arms for new, old in zip(self.blocks, before, strict=True)):
            self._stack_arms()
        elif any(new.means is not old.means for new, old in zip(self.blocks, before, strict=True)):
            self._stack_means()
        rounds = self.environment.block_rounds
        # Contiguous rows: one round's noise is read in one piece.
        self.noise = for_kernels(self._stack("noise", [block.noise for block in self.blocks], rounds))
        self.delays = self._stack_delays(rounds)
        return rounds

    def arms(self, t: int) -> Floats:
        """The arms of round t of this block."""
        return self._arms[t] if self.changing else self._arms

    def between(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Arms (T,R,K,d), a 1 for T or R where they are shared, and what each would pay (T,R,K)."""
        arms = self._arms[first:last] if self.changing else self._arms[None]
        means = self.means[first:last] if len(self.means) > 1 else self.means
        noise = self.noise[first:last, :, None]
        rewards = self.environment.rewards(means.reshape(-1, self.replicas, self.count), noise)
        return arms, for_kernels(rewards)

    def rewards(self, t: int, played: Ints) -> Floats:
        """What the arms played in round t pay.  played (R,) as indices r·K + arm → (R,)."""
        means = self.means[t if len(self.means) > 1 else 0].take(played)
        return for_kernels(self.environment.rewards(means, self.noise[t]))

    def gaps(self, played: Ints) -> Floats:
        """How much worse than the best each choice was.  played (m, R), as in `rewards` → (m, R)."""
        if len(self.means) == 1:
            means = self.means[0][played]
        else:
            means = np.take_along_axis(self.means[: len(played)], played, axis=1)
        gaps: Floats = self.best[: len(played)] - means
        return gaps

    def _stack_arms(self) -> None:
        first = self.blocks[0].arms
        shared = all(block.arms is first for block in self.blocks)
        distinct = [first] if shared else [block.arms for block in self.blocks]
        for arms in distinct:
            self._check_arms(arms, first.shape)
        self.changing = first.ndim == 3
        # (rounds,1,K,d) or (1,K,d) where all trials share them
        self._arms = for_kernels(np.stack(distinct, axis=1 if self.changing else 0))
        self.count = first.shape[-2]
        self._stack_means()

    def _stack_means(self) -> None:
        shape = self.blocks[0].arms.shape[:-1]
        for block in self.blocks:
            if block.means.shape != shape or not np.isfinite(block.means).all():
                raise ValueError(
                    f"{self._owner} gave means of shape {block.means.shape} for arms of shape "
                    f"{block.arms.shape}; expected finite numbers of shape {shape}"
                )
        means = for_kernels(np.stack([block.means for block in self.blocks], axis=-2))  # (…, R, K)
        self.means: Floats = means.reshape(-1, self.replicas * self.count)
        self.best: Floats = means.max(axis=-1).reshape(-1, self.replicas)  # (rounds or 1, R)

    def _stack_delays(self, rounds: int) -> Ints | None:
        delays = [block.delays for block in self.blocks]
        if all(series is None for series in delays):
            return None
        every = [np.empty(0, dtype=np.int64) if series is None else series for series in delays]
        stacked: Ints = self._stack("delays", every, rounds)
        return stacked[:, :1] if (stacked == stacked[:, :1]).all() else stacked

    def _stack(self, name: str, series: list[Any], rounds: int) -> NDArray[Any]:
        """The series of all trials as columns (rounds, R)."""
        for one in series:
            if one.shape != (rounds,):
                wanted = f"block_rounds={rounds} asks for ({rounds},)"
                raise ValueError(f"{self._owner} gave {name} of shape {one.shape}; {wanted}")
        stacked = np.stack(series, axis=1)
        if not np.isfinite(stacked).all():
            raise ValueError(f"{self._owner} gave {name} that are not finite")
        return stacked

    def _check_arms(self, arms: Floats, shape: tuple[int, ...]) -> None:
        rounds = self.environment.block_rounds
        if arms.ndim not in (2, 3) or 0 in arms.shape or (arms.ndim == 3 and len(arms) != rounds):
            raise ValueError(
                f"{self._owner} gave arms of shape {arms.shape}; expected (K, d), or ({rounds}, K, d) "
                "where they change"
            )
        if arms.shape != shape:
            raise ValueError(
                f"{self._owner} gave arms of shape {shape} in one trial and {arms.shape} in another"
            )
        if not np.isfinite(arms).all():
            raise ValueError(f"{self._owner} gave arms that are not finite")

    @property
    def _owner(self) -> str:
        return f"{type(self.environment).__name__}.blocks"
