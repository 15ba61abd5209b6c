"""Every path through a policy's kernels, gone through once so that a later decision finds them compiled.

Kernels are compiled when they are first reached. Which of them a decision reaches depends on the policy's
parameters and on the number, the dimension and the rank of the arms, and on nothing else worth mentioning.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from linmed.checks import Floats
from linmed.kernels.compile import compile_neighbours
from linmed.policies.base import Policy
from linmed.policies.live import Live

TOO_SLOW = 0.003
"""Seconds of a decision beyond which larger sets are left to those who want them."""


class Shape(NamedTuple):
    """A set of arms."""

    arms: int
    dim: int
    rank: int

    def __str__(self) -> str:
        flat = "" if self.rank == min(self.arms, self.dim) else f" of rank {self.rank}"
        return f"{self.arms} × {self.dim}{flat}"


SHAPES = (
    Shape(1, 2, 1), Shape(2, 2, 2), Shape(4, 4, 4), Shape(10, 4, 4), Shape(14, 5, 2), Shape(12, 18, 12),
    Shape(64, 4, 4), Shape(40, 17, 3), Shape(41, 17, 17), Shape(1000, 17, 17), Shape((1 << 14) + 7, 17, 17),
)  # fmt: skip
"""From few arms to more than fit into a cache, some of them in a plane or fewer than the dimensions."""


def variants(kind: type[Policy]) -> list[Policy]:
    """The policy as it is by default, and with each of its choices made otherwise."""
    found = [kind()]
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        for value in _others(hints[field.name], field.default):
            with contextlib.suppress(
                ValueError, TypeError
            ):  # not every choice goes with the others' defaults
                found.append(kind(**{field.name: value}))
    return found


def _others(hint: Any, default: Any) -> Iterator[Any]:
    """Other values of a parameter that may take another path: options, flags, shares that are 0."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    options = [value for one in kinds if get_origin(one) is Literal for value in get_args(one)]
    yield from (value for value in options if value != default)
    if options and (int in kinds or float in kinds):
        yield 2
    if isinstance(default, bool):
        yield not default
    elif default == 0.0 and float in kinds:
        yield 0.1


def walk(policy: Policy, shape: Shape) -> float:
    """Decide and learn in every way among arms of this shape; seconds of a first decision once compiled."""
    arms = _arms(policy, shape)
    count, dim = arms.shape[1:]
    one = np.zeros(1, dtype=np.int64)
    state: Any = policy.start(1, dim)
    noise = policy.draw_noise(np.random.default_rng(count), (2,), dim)
    for reward in (0.0, 1.0, 0.0):  # while every arm is new, and later
        choice = policy.decide(state, arms, noise[:1])
        policy.learn_at(state, choice.features, np.full(1, reward), one, np.zeros(1))
        if policy.learns_from_arms and not policy.on_clock:
            policy.observe(state, arms[0], np.full(count, reward), np.zeros(count, dtype=np.int64))
    policy.predict(state, arms[0])
    policy.choose(state, arms, noise[:1])
    policy.log_probabilities(state, arms)
    if policy.learns_from_arms:
        policy.decide(state, np.concatenate([arms, arms]), noise)
    live = Live(policy, policy.start(1, dim))
    live.learn(live.decide(arms[0], noise[:, None], 0)[-1], 1.0, 0.0)
    played = np.empty((1, 1), dtype=np.int64)
    if not policy.on_clock:
        policy.play(state, arms[None], np.zeros((1, 1, count)), noise[None, :1], played)
    began = time.thread_time()
    policy.decide(policy.start(1, dim), arms, noise[:1])
    return time.thread_time() - began


def walk_all(policy: Policy) -> Iterator[Shape]:
    """`walk` among sets of every shape, each told when it is done, up to those that take too long."""
    for shape in SHAPES:
        seconds = walk(policy, shape)
        yield shape
        if seconds > TOO_SLOW:
            break
    compile_neighbours()


def _arms(policy: Policy, shape: Shape) -> Floats:
    """Arms (1,K,d) in general position, as the policy takes them."""
    rng = np.random.default_rng(shape.arms)
    arms = np.einsum("kr,rd->kd", rng.normal(size=(shape.arms, shape.rank)), rng.normal(size=shape[2:0:-1]))
    arms /= np.sqrt(np.einsum("kd,kd->k", arms, arms))[:, None]
    return policy.like(arms)[None]
