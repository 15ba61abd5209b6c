"""How every kernel is compiled: cached on disk, without the interpreter lock, IEEE arithmetic kept.

What a policy believes, how sure it is and how it decides reach the kernels as named tuples of arrays and
numbers: `Ridge`, `RidgeSet`, `MedRule`. Their methods are written in Python and compiled where they are used
(`by_class`): a belief, a confidence set or a rule of one's own is a class and needs no copy of the others.
"""

import _thread
import ctypes
import hashlib
import inspect
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numba._dynfunc as native
from llvmlite import ir
from numba import float64, types, void
from numba.core import cgutils, sigutils
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import signature as typed
from numba.extending import intrinsic, overload

from linmed.kernels.cache import keep_on_disk

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": False}
_WITHOUT_WRAPPERS: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
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
    compiled: Any = numba.njit(**_OPTIONS)(function)
    if all(map(_found_by_name, classes)):
        keep_on_disk(compiled)
    return compiled


_pointers: dict[int, tuple[Any, Any, Any]] = {}  # by their address: pointer, kernel, types of its arguments


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _resolve(place: int) -> None:
    """Compile, or load, the kernel that a pointer stands for; if that fails, it stays null.

    The kernel in whose middle this happens cannot be interrupted, and neither can numba, which would not
    compile again afterwards. So another thread does the work, out of reach of signals, and what their
    handlers raise meanwhile is raised again as soon as Python goes on.
    """
    done, begun = threading.Event(), False
    raised: list[BaseException] = []
    while not done.is_set():
        try:
            if not begun:
                begun = _begin(_load, *_pointers[place], done)
            done.wait()
        except BaseException as error:
            raised.append(error)
    if raised:
        threading.Thread(target=_raise_again, args=(raised[0], threading.get_ident()), daemon=True).start()


def _begin(work: Callable[..., None], *arguments: Any) -> bool:
    """Have it done by a thread of its own; where none can be had, as when Python ends, here."""
    try:
        _thread.start_new_thread(work, arguments)
    except RuntimeError:
        work(*arguments)
    return True


def _load(pointer: Any, compiled: Any, arguments: Any, done: threading.Event) -> None:
    """Let the pointer lead to the compiled kernel."""
    try:
        compiled.compile(arguments)
        result = compiled.overloads[arguments]
        pointer.value = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    except BaseException:
        traceback.print_exc()
    finally:
        done.set()


def _raise_again(error: BaseException, thread: int) -> None:
    """Raise the error in that thread, once it has left the callback."""

    class Again(type(error)):  # type: ignore[misc]
        def __init__(self, *_: Any) -> None:
            super().__init__(*error.args)

    Again.__name__ = Again.__qualname__ = type(error).__name__
    time.sleep(0.02)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Again))


def compile_neighbours() -> None:
    """Compile also what stands in one file with a kernel that has been reached: rare cases of its rule."""
    reached = {compiled.py_func.__module__ for pointer, compiled, _ in _pointers.values() if pointer.value}
    for place, (_, compiled, _) in _pointers.items():
        if compiled.py_func.__module__ in reached:
            _resolve(place)


llvmlite.binding.add_symbol("linmed_resolve", ctypes.cast(_resolve, ctypes.c_void_p).value)


def deferred(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A kernel for kernels, which reach it through a pointer that is resolved when it is first followed.

    numba copies every kernel into all that call it, directly or not, and optimises each copy. What is large,
    or seldom needed, is deferred instead: it is compiled once, on its own, and only where it is needed.
    """
    arguments, result = sigutils.normalize_signature(signature)
    declared = typed(result, *arguments)
    word = ir.IntType(64)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Any = numba.njit(**_WITHOUT_WRAPPERS)(function)
        keep_on_disk(compiled)
        pointer = ctypes.c_void_p(None)
        name = f"{function.__module__}.{function.__qualname__} {declared}"
        llvmlite.binding.add_symbol(name, ctypes.addressof(pointer))
        _pointers[ctypes.addressof(pointer)] = pointer, compiled, arguments

        def call(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            place = builder.module.globals.get(name) or ir.GlobalVariable(builder.module, word, name)
            address = cgutils.alloca_once_value(builder, builder.load(place))
            with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(address))):
                kind = ir.FunctionType(ir.VoidType(), [word])
                resolve = cgutils.get_or_insert_function(builder.module, kind, "linmed_resolve")
                builder.call(resolve, [builder.ptrtoint(place, word)])
                found = builder.load(place)
                with cgutils.if_unlikely(builder, cgutils.is_null(builder, found)):
                    message = f"{function.__name__} could not be compiled"
                    context.call_conv.return_user_exc(builder, RuntimeError, (message,))
                builder.store(found, address)
            convention = context.call_conv
            kind = convention.get_function_type(declared.return_type, declared.args)
            target = builder.inttoptr(builder.load(address), kind.as_pointer())
            status, value = convention.call_function(
                builder, target, declared.return_type, declared.args, given
            )
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return value

        def infer(context: Any, *given: Any) -> Any:
            return declared, call

        own = inspect.signature(function).parameters.values()
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        infer.__signature__ = inspect.Signature([context, *own])  # type: ignore[attr-defined]
        infer.__name__, infer.__doc__ = function.__name__, function.__doc__
        reached: Callable[..., Any] = intrinsic(infer)
        return reached

    return wrap


def _found_by_name(cls: type) -> bool:
    """Whether the class can be imported: not one of the running script or of a notebook."""
    module = sys.modules.get(cls.__module__)
    return cls.__module__ != "__main__" and getattr(module, cls.__qualname__, None) is cls


@ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _refuse(*_: Any) -> None:
    """What Python calls if it calls a piece."""
    message = b"a piece of kernels can be called by kernels alone"
    ctypes.pythonapi.PyErr_SetString(ctypes.py_object(TypeError), message)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerForCallers(NativeLowering):
    """Lower a piece, and leave its optimisation and machine code to the kernels that it is copied into.

    numba would do both for every function by itself, and again for each that calls it: half of the time that
    a first decision takes.
    """

    _name = "linmed_lower_for_callers"

    def run_pass(self, state: Any) -> bool:
        library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library._optimize_functions = library._optimize_final_module = lambda *_: None
        library._finalize_final_module = lambda: setattr(library, "_finalized", True)
        state.library, state.flags.no_compile = library, True
        super().run_pass(state)
        lowered = state.cr
        # What typing finds the piece by.
        refuse = ctypes.cast(_refuse, ctypes.c_void_p).value
        module, own_name = lowered.fndesc.lookup_module(), state.func_id.func_name
        name = native.make_function(module, own_name, "", refuse, lowered.env, (library,))
        state.targetctx.insert_user_function(name, lowered.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state.cr = lowered._replace(cfunc=name)
        return True


class _ForCallers(CompilerBase):
    """numba's compiler with `_LowerForCallers` in its place."""

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_LowerForCallers if step is NativeLowering else step, why) for step, why in pipeline.passes
        ]
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


_PIECE: Any = {**_WITHOUT_WRAPPERS, "forceinline": True, "pipeline_class": _ForCallers}


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

    In Python it calls the method; in compiled code the method is compiled into its caller. A class without
    such a method gets what the function itself does.
    """
    name = function.__name__

    def method(first: Any, *others: Any) -> Any:
        return getattr(type(first), name, function)(first, *others)

    method.__name__, method.__doc__ = name, function.__doc__
    overload(method, strict=False, jit_options=_PIECE)(
        lambda first, *others: getattr(first.instance_class, name, function)
    )
    return method


def reordered(function: Callable[..., Any]) -> Any:
    """As `kernel`, but sums may be taken in another order and in one rounding with their products.

    For inner products along a row, which vectorise only so. A row's sum depends on nothing but the row,
    so equal arms still get equal values wherever they stand.
    """
    compiled: Callable[..., Any] = numba.njit(fastmath={"reassoc", "contract", "nsz"}, **_OPTIONS)(function)
    keep_on_disk(compiled)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A piece of the kernels that call it, copied into them: passing arrays may cost more than it does.

    It can be called by kernels alone.
    """
    compiled: Callable[..., Any] = numba.njit(**_PIECE)(function)
    return compiled


def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z with one rounding: fma(x, y, −(x·y)) is exactly what the product x·y has lost."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return float64(float64, float64, float64), generate


fma: Callable[..., Any] = intrinsic(_fma)


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
