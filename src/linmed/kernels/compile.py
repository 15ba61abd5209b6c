"""How every kernel is compiled: cached on disk, without the interpreter lock, IEEE arithmetic kept.

What a policy believes, how sure it is and how it decides reach the kernels as named tuples of arrays and
numbers: `Ridge`, `PaperSet`, `MedRule`. Their methods are written in Python and compiled where they are used
(`by_class`): a belief, a confidence set or a rule of one's own is a class and needs no copy of the others.
"""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import float64, types, void
from numba.core import cgutils
from numba.extending import intrinsic, overload

from linmed.kernels.cache import keep_on_disk


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call.

    `fastmath` stays off: the sums in twice the working precision rely on the order of operations.
    A kernel made for classes (see `by_class`) is kept only if another process would find them by name.
    """
    # forceinline is said outright because kernels inherit it from the `@inlined` functions that call them.
    made_for = [cell.cell_contents for cell in function.__closure__ or ()]
    classes = [value for value in made_for if isinstance(value, type)]
    if classes:
        # Kernels of one name are told apart by theirs, in messages, among files and by the linker.
        numbers = [value for value in made_for if isinstance(value, int)]
        whole = ".".join([*(cls.__name__ for cls in classes), *(f"{number:x}" for number in numbers)])
        function.__qualname__ += f".{whole}"
    compiled: Callable[..., Any] = numba.njit(forceinline=False, nogil=True, error_model="numpy")(function)
    if all(map(_found_by_name, classes)):
        keep_on_disk(compiled)
    return compiled


def _found_by_name(cls: type) -> bool:
    """Whether the class can be imported: not one of the running script or of a notebook."""
    module = sys.modules.get(cls.__module__)
    return cls.__module__ != "__main__" and getattr(module, cls.__qualname__, None) is cls


def version_of(*classes: type) -> int:
    """A number that changes with the files in which the classes stand.

    numba keeps a compiled kernel as long as the kernel's own file stays the same. One made for a class whose
    formula has changed since must not be found again: this number, a variable of the kernel, sees to that.
    """
    seen = hashlib.sha256()
    for cls in classes:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        seen.update(Path(file).read_bytes() if file is not None else b"")
    return int.from_bytes(seen.digest()[:7])


def by_class(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(x, …)` stands in compiled code for the method of that name of x's class, a named tuple.

    In Python it calls the method; in compiled code the method is compiled into its caller.
    """
    name = function.__name__

    def method(first: Any, *others: Any) -> Any:
        return getattr(first, name)(*others)

    method.__name__, method.__doc__ = name, function.__doc__
    overload(method, strict=False, jit_options={"forceinline": True, "nogil": True, "error_model": "numpy"})(
        lambda first, *others: getattr(first.instance_class, name)
    )
    return method


def reordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, but sums may be taken in another order and in one rounding with their products.

    For inner products along a row, which vectorise only so. A row's sum depends on nothing but the row,
    so equal arms still get equal values wherever they stand.
    """
    compiled: Callable[..., Any] = numba.njit(
        forceinline=False, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
    )(function)
    keep_on_disk(compiled)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, copied into its callers: a call that passes many arrays costs more than a small case does.

    For leaves only: they index the arrays they are given, take no views of them and call nothing that does,
    not even in a branch seldom run. What that adds to the loop around them costs more than a small case, too.
    """
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return compiled


def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z with one rounding: fma(x, y, −(x·y)) is exactly what the product x·y has lost."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return float64(float64, float64, float64), generate


fma: Callable[..., Any] = intrinsic(_fma)


def _apart(context: Any) -> Any:
    """Keeps the kernel that says it a function of its own instead of copying it into every caller.

    Without it a large kernel is optimised again wherever it is called, and a first decision takes minutes.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return void(), generate


apart: Callable[..., Any] = intrinsic(_apart)


def _borrowed(context: Any, value: Any) -> Any:
    """The same array, or tuple of arrays and numbers, without ownership: nothing counts references to it.

    Counting costs more than a small round does. The owner must outlive what is borrowed: arguments of a
    kernel do, and what a kernel makes itself does if `keep` stands behind its last use.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def disown(type_: Any, whole: Any) -> Any:
            if isinstance(type_, types.Array):
                array = context.make_array(type_)(context, builder, whole)
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                return array._getvalue()
            if isinstance(type_, types.BaseTuple):
                members: Any = type_
                for place, member in enumerate(members):
                    part = disown(member, builder.extract_value(whole, place))
                    whole = builder.insert_value(whole, part, place)
            return whole

        return disown(signature.args[0], arguments[0])

    return value(value), generate


def _keep(context: Any, value: Any) -> Any:
    """Keeps an owner alive until here."""
    return void(value), lambda context, builder, signature, arguments: context.get_dummy_value()


borrowed: Callable[..., Any] = intrinsic(_borrowed)
keep: Callable[..., Any] = intrinsic(_keep)
