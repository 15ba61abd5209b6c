"""One decision and one reward of a live user: kernels bound to the state that they work on.

numba looks at every argument of every call, at each array within a tuple too. For a state of eight arrays
that takes longer than a small decision does. Here the state, the confidence set and the rule are laid down
in memory once, as compiled functions pass them to each other, and two small kernels hand them on. They call
by address: what they call is not compiled again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from linmed.checks import LARGEST
from linmed.kernels.compile import borrowed, kernel
from linmed.kernels.linear import all_within

_LINE, _SQUARE, _CUBE = np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0))
_PLACES = np.empty(0, dtype=np.int64)


class Bound(partial[Any]):
    """A compiled function with its first arguments given, and what must live as long as it does."""

    owned: Any


def deciding(
    rounds: Any, state: tuple[Any, ...], confidence: tuple[Any, ...], rule: tuple[Any, ...]
) -> Bound:
    """The kernel `rounds` of these three for one decision: `decide_one` from arms on."""
    round_ = _CUBE[None], _CUBE, _SQUARE, _CUBE, _PLACES[None], _CUBE
    return _bound(decide_one, (_SQUARE, _CUBE, 0, _LINE, _LINE), rounds, (state, confidence, rule), round_)


def learning(observe: Any, state: tuple[Any, ...]) -> Bound:
    """A kernel of `rounds.observing` for one reward: `learn_one` from vector on."""
    return _bound(learn_one, (_LINE, 0.0), observe, (state,), (_SQUARE, _LINE, _PLACES))


def _bound(caller: Any, like: tuple[Any, ...], called: Any, given: Any, others: tuple[Any, ...]) -> Bound:
    """`caller` of the kernel `called`, which takes `given` and `others`; its own arguments are like `like`.

    Nothing looks at the types of those again: arrays must be in the form of `checks.for_kernels`.
    """
    signature = _types(*given, *others)
    called.compile(signature)
    version = called.overloads[signature]
    assert version.signature.return_type == types.none
    address = version.library.get_pointer_to_function(version.fndesc.llvm_func_name)
    kind = numba.typeof(given)
    target = cpu_target.target_context
    memory = np.empty(target.get_abi_sizeof(target.get_value_type(kind)), dtype=np.uint8)
    hold(memory, given)
    bound = Bound(caller.compile(_types(kind, address, memory, *like)), kind, address, memory)
    bound.owned = called, given
    return bound


def _types(*arguments: Any) -> tuple[Any, ...]:
    return tuple(numba.typeof(argument) for argument in arguments)


def _lay_down(context: Any, memory: Any, values: Any) -> Any:
    """Write a tuple into `memory` as compiled code holds it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(memory)(context, builder, arguments[0])
        builder.store(arguments[1], builder.bitcast(array.data, arguments[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(memory, values), generate


def _call(context: Any, kind: Any, address: Any, memory: Any, others: Any) -> Any:
    """Call the kernel at `address` with the tuple of type `kind` that lies in `memory`, and with `others`."""
    given: Any = kind.instance_type

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(memory)(context, builder, arguments[2])
        laid_down = builder.load(builder.bitcast(array.data, context.get_value_type(given).as_pointer()))
        values = [*cgutils.unpack_tuple(builder, laid_down), *cgutils.unpack_tuple(builder, arguments[3])]
        kinds = [*given, *signature.args[3]]
        form = context.call_conv.get_function_type(types.none, kinds)
        function = builder.inttoptr(arguments[1], form.as_pointer())
        status, _ = context.call_conv.call_function(builder, function, types.none, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(kind, address, memory, others), generate


def _lifted(context: Any, array: Any) -> Any:
    """The same array with an axis of length 1 before its own."""
    result = array.copy(ndim=array.ndim + 1)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(array)(context, builder, arguments[0])
        lifted = context.make_array(result)(context, builder)
        shape, strides = (cgutils.unpack_tuple(builder, axes) for axes in (given.shape, given.strides))
        one = context.get_constant(types.intp, 1)
        populate_array(
            lifted,
            data=given.data,
            shape=[one, *shape],
            strides=[builder.mul(given.nitems, given.itemsize), *strides],
            itemsize=given.itemsize,
            meminfo=None,
        )
        return lifted._getvalue()

    return result(array), generate


lay_down: Callable[..., Any] = intrinsic(_lay_down)
call: Callable[..., Any] = intrinsic(_call)
lifted: Callable[..., Any] = intrinsic(_lifted)


@kernel
def hold(memory, given):
    """Lay `given` down in `memory`, without ownership."""
    lay_down(memory, borrowed(given))


@kernel
def decide_one(kind, address, memory, arms, noise, t, log_p, vector):
    """Decide among arms (K,d) with noise[t]: the arm, or −1 where some entry of theirs is not acceptable.

    Writes log_p (K,) and the arm's vector (d,).  noise (T,1,size).
    """
    if not all_within(arms, LARGEST):
        return -1
    nothing, none, played = np.empty((0, 0, 0)), np.empty((0, 0)), np.empty((1, 1), np.int64)
    round_ = lifted(lifted(arms)), nothing, none, noise[t : t + 1], played, lifted(lifted(log_p))
    call(kind, address, memory, round_)
    arm = played[0, 0]
    for k in range(vector.shape[0]):
        vector[k] = arms[arm, k]
    return arm


@kernel
def learn_one(kind, address, memory, vector, reward):
    """Absorb the reward of an arm (d,)."""
    rewards, replicas = np.empty(1), np.empty(1, np.int64)
    rewards[0], replicas[0] = reward, 0
    call(kind, address, memory, (lifted(vector), rewards, replicas))
