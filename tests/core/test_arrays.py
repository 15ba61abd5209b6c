"""No array may lead the core to undefined behaviour: a call works, or it ends in an exception.

Functions are found with their arguments in the module, so those that come later are tried too. Every array
that is given lies between guards, which must stay as they are. `make sanitize` runs this with a core that
stops at each access beyond an array.
"""

import contextlib
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from linmed.core import core
from linmed.policies import EXP2, Disjoint, LinMED
from linmed.policies.compiled import CompiledPolicy
from tests.policies.configurations import CONFIGURATIONS, FEW, noise_for, situation

GUARD = 64  # bytes before and behind each array, a multiple of every item's size
TRIES = 60  # calls of each function
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, RuntimeError)
SIZE = 8  # of every axis where shapes should agree: whole vectors


@dataclass(frozen=True)
class Argument:
    """One argument of a function of the core, as its signature states it."""

    name: str
    kind: str  # array, float, int, bool, Belief, Rule, Set or other
    dtype: str = ""
    axes: int = 0
    writable: bool = False


def arguments(signature: str) -> list[Argument]:
    """The arguments in `name(a: ndarray[dtype=float64, shape=(*, *), ...], b: float) -> None`."""
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    found = []
    for part in re.findall(r"(\w+): ((?:[^,\[]|\[[^\]]*\])+)", inside):
        name, text = part
        array = re.search(r"dtype=(\w+), shape=\(([*, ]*)\)", text)
        if array:
            found.append(Argument(name, "array", array[1], array[2].count("*"), "writable=False" not in text))
        else:
            found.append(Argument(name, text.split(".")[-1].split(" ")[0]))
    return found


def functions(module: Any, prefix: str = "") -> Iterator[tuple[str, Any, list[Argument]]]:
    """Every function that takes arrays, with each of its signatures."""
    for name in dir(module):
        one = getattr(module, name)
        if isinstance(one, types.ModuleType):
            yield from functions(one, f"{name}.")
        elif callable(one) and not inspect.isclass(one):
            for line in (one.__doc__ or "").splitlines():
                if line.startswith(f"{name}(") and "ndarray[" in line:
                    yield prefix + name, one, arguments(line)


FUNCTIONS = list(functions(core))
# Shapes that are not SIZE in every axis, by the names of function and argument.
WIDE = (SIZE, SIZE + 1, SIZE + 1)
SHAPES: dict[tuple[str, str], tuple[int, ...]] = {
    ("best_arm_probabilities", "law"): (2, SIZE, SIZE),
    ("precisions", "gram"): WIDE,
    ("stable_sums", "state"): (4,),
    ("stable_sums", "sums"): (5,),
    **{(name, part): (32,) for name in ("betting", "cut_betting") for part in ("gains", "bets")},
    **{(name, "offsets"): (SIZE + 1,) for name in ("cut_betting", "predict_learn", "means_predict_learn")},
}


class Guarded:
    """Arrays between guards."""

    FILLING: ClassVar[int] = 0xA5

    def __init__(self) -> None:
        self.held: list[tuple[np.ndarray, int]] = []

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = np.full(size + 2 * GUARD, self.FILLING, np.uint8)
        self.held.append((memory, size))
        return memory[GUARD : GUARD + size].view(dtype).reshape(shape)

    def intact(self) -> bool:
        return all(
            (memory[:GUARD] == self.FILLING).all() and (memory[GUARD + size :] == self.FILLING).all()
            for memory, size in self.held
        )


def fill(array: np.ndarray, rng: np.random.Generator, odd: bool) -> None:
    """Numbers as they may come; where `odd`, also such as may not."""
    if array.dtype.kind == "f":
        array[...] = rng.standard_normal(array.shape)
        if odd:
            large = 1e300 if array.dtype == np.float64 else 1e30
            strange = [np.nan, np.inf, -np.inf, 0.0, -1.0, large, -large, 5e-324]
            array[rng.random(array.shape) < 0.3] = rng.choice(strange)
    elif array.dtype == bool:
        array[...] = rng.random(array.shape) < 0.5
    else:
        array[...] = rng.integers(0, max(array.shape, default=1) or 1, array.shape)
        if odd and array.size:
            strange = [-1, 9, 100, 2**31, 2**63 - 1, -(2**63)] if array.dtype.kind == "i" else [0, 2**63]
            array[rng.random(array.shape) < 0.3] = rng.choice(strange)


def otherwise(array: np.ndarray, rng: np.random.Generator) -> Any:
    """The numbers of the array, kept in another way, or in another shape."""
    way = int(rng.integers(14))
    if way == 0:
        return np.asfortranarray(array)
    if way == 1:
        return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
    if way == 2:
        return array[..., ::-1]
    if way == 3:
        return array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
    if way == 4:
        return array.astype(array.dtype.newbyteorder(">"))
    if way == 5:
        array.flags.writeable = False
        return array
    if way == 6:
        return array.astype(object)
    if way == 7:
        return array.tolist()
    if way == 8:
        return array[None]
    if way == 9:
        return array[..., 0] if array.size else array
    if way == 10:
        return np.broadcast_to(array[:1], array.shape)
    if way == 11:  # not aligned
        raw = np.zeros(array.nbytes + 1, np.uint8)
        off = raw[1:].view(array.dtype).reshape(array.shape)
        off[...] = array
        return off
    if way == 12:
        return array.astype(np.complex128)
    return None


def given(arguments: list[Argument], name: str, rng: np.random.Generator, guarded: Guarded) -> list[Any]:
    """Arguments that fit together, most of them; then one or another that does not."""
    wrong = int(rng.integers(4))  # 0: nothing, 1: a shape, 2: the way an array is kept, 3: numbers
    spoilt = rng.choice([a.name for a in arguments if a.kind == "array"])
    result: list[Any] = []
    for a in arguments:
        if a.kind == "array":
            shape = SHAPES.get((name, a.name), (SIZE,) * a.axes)
            if wrong == 1 and (a.name == spoilt or rng.random() < 0.1):
                axis = int(rng.integers(a.axes))
                shape = (*shape[:axis], int(rng.choice([0, 1, 2, 7, 9, 16])), *shape[axis + 1 :])
            array = guarded.array(shape, a.dtype)
            fill(array, rng, odd=wrong == 3)
            if a.name == "offsets" and a.axes == 1 and wrong != 3:
                array[...] = np.arange(array.size)
            result.append(otherwise(array, rng) if wrong == 2 and a.name == spoilt else array)
        elif a.kind == "float":
            result.append(
                float(
                    rng.choice([0.5, 1.0, 3.0] if wrong != 3 else [0.0, -1.0, np.nan, np.inf, 1e300, 1e-300])
                )
            )
        elif a.kind == "int":
            result.append(int(rng.choice([-1, 0, 1, 3, 7, 8, 9] if wrong == 3 else [1, 2, 4])))
        elif a.kind == "bool":
            result.append(bool(rng.integers(2)))
        else:
            result.append(held(a.kind, name))
    return result


def held(kind: str, name: str) -> Any:
    """A belief of SIZE replicas and features, a set or a rule, as this function takes."""
    replicas = 1 if name == "predict_learn" else SIZE
    if kind == "Belief":
        square, line, zero = (
            np.tile(np.eye(SIZE), (replicas, 1, 1)),
            np.zeros((replicas, SIZE)),
            np.zeros(replicas),
        )
        count = zero.astype(np.int64)
        if name == "estimators":
            return core.Totals(line, count, line.copy(), count.copy())
        if name == "look_at_models":
            policy = Disjoint(LinMED())
            return policy.bind(policy.start(replicas, SIZE))
        parts = [line, count, square, 0.0 * square, square, line, line, zero, zero, zero]
        return core.Ridge(*(part.copy() for part in parts))
    if kind == "Set":
        return core.FixedSet(1.0)
    if kind == "Rule":
        if name == "e2d_program":
            return core.E2dRule(3.0, 0.0, 1e-6, 1.0, 0.0, 1.0, 0.0)
        if name == "estimators":
            design, lift = np.full((SIZE, SIZE), 1.0 / SIZE), np.tile(np.eye(SIZE), (SIZE, 1, 1))
            return core.Exp2Rule(100.0, 0.1, 0.1, design, lift, np.full(SIZE, SIZE), lift.copy())
        if name == "exploration":
            return core.SquareRule(False, False, 8.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0)
        if name == "spreads":
            return core.ThompsonRule(0, 0.5, 100.0, 3.0, 1.0, 0.0)
        return core.MedRule(0.5, 0.25, 0, False, True, False)
    return None


@pytest.mark.parametrize(("name", "function", "arguments"), FUNCTIONS, ids=[name for name, *_ in FUNCTIONS])
def test_functions_take_or_refuse_any_array(name, function, arguments):
    rng = np.random.default_rng(sum(map(ord, name)))
    for _ in range(TRIES):
        guarded = Guarded()
        arrays = given(arguments, name, rng, guarded)
        with contextlib.suppress(*REFUSALS):
            function(*arrays)
        assert guarded.intact()


def beliefs() -> dict[str, CompiledPolicy]:
    """A policy for each kind of belief of the core."""
    found: dict[str, CompiledPolicy] = {}
    for policy in CONFIGURATIONS:
        if isinstance(policy, CompiledPolicy):
            state = policy.start(1, 4)
            kind = getattr(policy.belief, "__name__", type(policy).__name__)
            found.setdefault(f"{kind} of {type(state).__name__}", policy)
    return found


BELIEFS = beliefs()


def use(policy: CompiledPolicy, parts: list[Any], arms: np.ndarray, rng: np.random.Generator) -> None:
    """Three rounds, an observation and a live decision with a belief of these arrays."""
    belief = policy.belief(*parts)
    R, K, d = arms.shape
    noise = noise_for(policy, d, rng, R)
    # EXP2's rule is made for the arms of a call.
    rule = core.UniformRule() if isinstance(policy, EXP2) else policy._deciding
    sure = policy.confidence_set
    for rewards in (np.empty((0, 0, 0)), rng.random((3, R, K))):
        T = len(rewards) or 1
        played, log_p = np.empty((T, R), np.int64), np.empty((T, R, K))
        errors = np.zeros((T, R)) if len(rewards) else np.empty((0, 0))
        core.play(belief, sure, rule, arms[None], rewards, errors, np.tile(noise, (T, 1, 1)), played, log_p)
        assert ((played >= 0) & (played < K)).all()
    core.observe(belief, arms[:, 0].copy(), np.ones(R), np.arange(R))


@pytest.mark.parametrize("name", BELIEFS)
def test_beliefs_take_or_refuse_any_array(name):
    """Each array of a state in other shapes, kept in other ways, with numbers that no round leaves there."""
    policy = BELIEFS[name]
    rng = np.random.default_rng(0)
    state, arms = situation(policy, FEW)
    arms = np.ascontiguousarray(arms)
    use(policy, [part.copy() for part in state.parts()], arms, rng)
    for place in range(len(state.parts())):
        for attempt in range(12):
            guarded = Guarded()
            parts: list[Any] = []
            for part in state.parts():
                array = guarded.array(part.shape, part.dtype.str)
                array[...] = part
                parts.append(array)
            if attempt < 6:
                parts[place] = otherwise(parts[place], rng)
            elif attempt < 8:
                shape = list(parts[place].shape)
                shape[int(rng.integers(len(shape)))] += int(rng.choice([-1, 1, 3]))
                parts[place] = np.zeros([max(n, 0) for n in shape], parts[place].dtype)
            else:
                fill(parts[place], rng, odd=True)
            with contextlib.suppress(*REFUSALS):
                use(policy, parts, arms, rng)
            assert guarded.intact()
    for fewer in ([], state.parts()[:-1], [*state.parts(), np.zeros(3)]):
        with pytest.raises((TypeError, ValueError)):
            policy.belief(*fewer)
