"""`linmed simulate`: policies by name on an environment by name."""

import argparse
import ast
import dataclasses
import difflib
import re
import sys
from pathlib import Path
from typing import Any, TypeVar

from linmed.environments import Delayed, Environment
from linmed.policies import ALL, LinIMED, LinMED, LinMEDNoDesign, LinTS, Policy, SpannerIGW
from linmed.registry import concrete_subclasses
from linmed.simulation.results import Results
from linmed.simulation.run import SimulationInterrupted, simulate
from linmed.simulation.store import StoreError

T = TypeVar("T")

LEGENDS: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    "LinMED-99": (LinMED, {"alpha_emp": 0.99}),
    "LinMED-90": (LinMED, {"alpha_emp": 0.90}),
    "LinMED-50": (LinMED, {"alpha_emp": 0.50}),
    "LinMEDNOPT": (LinMEDNoDesign, {}),
    "LinTS-Freq": (LinTS, {"scale": "frequentist"}),
    "LinTS-Bayes": (LinTS, {"scale": "bayes"}),
    "LinIMED-1": (LinIMED, {"version": 1}),
    "LinIMED-2": (LinIMED, {"version": 2}),
    "LinIMED-3": (LinIMED, {"version": 3}),
    "SpannerIGW-AT": (SpannerIGW, {}),
}
"""Names in the paper's legends that are no class's: a class and what they fix."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `simulate` to the subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "simulate",
        help="run policies on a problem and compare their regret",
        description="Run policies on a problem and compare their regret. A policy or problem is a name, with "
        'parameters in brackets where they differ from the defaults: LinMED-90, \'LinTS(scale="bayes", '
        "sigma=0.5)', 'UnitBall(arms=50, dim=10)'.",
        epilog=f"Policies: {', '.join(policy_makers())}. Problems: {', '.join(environment_makers())}.",
    )
    parser.add_argument("policies", nargs="+", metavar="POLICY", help="which policies")
    parser.add_argument("--on", required=True, metavar="PROBLEM", help="which problem")
    parser.add_argument("--delay", type=int, default=0, metavar="N", help="rewards arrive N rounds late")
    parser.add_argument("--horizon", type=int, default=10_000, metavar="N", help="rounds (default: 10000)")
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    parser.add_argument("--workers", type=int, metavar="N", help="threads (default: as many as help)")
    parser.add_argument("--store", metavar="DIR", help="keep finished trials here, and resume from them")
    parser.add_argument("--plot", metavar="FILE", help="draw the regret (.png, .svg or .pdf)")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 if all was simulated, 2 for a wrong request, 130 after Ctrl-C."""
    try:
        policies = [parse("policy", text, policy_makers()) for text in args.policies]
        environment = parse("problem", args.on, environment_makers())
        if args.delay:
            environment = Delayed(environment, rounds=args.delay)
        if args.plot is not None:
            _check_plot(Path(args.plot))
        sizes = args.horizon, args.trials, args.seed
        results = simulate(policies, environment, *sizes, store=args.store, workers=args.workers)
    except SimulationInterrupted as interrupt:
        print("interrupted; the trials that had finished:", file=sys.stderr)
        _show(interrupt.results, None)
        return 130
    except (StoreError, OSError, TypeError, ValueError, ImportError) as error:
        print(f"linmed simulate: {error}", file=sys.stderr)
        return 2
    _show(results, args.plot)
    return 0


def policy_makers() -> dict[str, tuple[type[Policy], dict[str, Any]]]:
    """Every policy by the paper's short names, and by its class's name."""
    return {**LEGENDS, **{cls.__name__: (cls, {}) for cls in ALL}}


def environment_makers() -> dict[str, tuple[type[Environment], dict[str, Any]]]:
    """Every environment of the package; a delay is an option of its own."""
    known = sorted(concrete_subclasses(Environment), key=lambda cls: cls.__name__)
    own = [cls for cls in known if cls.__module__.startswith("linmed.") and cls is not Delayed]
    return {cls.__name__: (cls, {}) for cls in own}


def parse(kind: str, text: str, makers: dict[str, tuple[type[T], dict[str, Any]]]) -> T:
    """`Name` or `Name(parameter=value, …)` with plain values."""
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text, flags=re.DOTALL)
    if match is None:
        raise ValueError(
            f"{kind} {text!r} is not a name with parameters in brackets, as in LinMED(sigma=0.5)"
        )
    name, inside = match.groups()
    if name not in makers:
        near = difflib.get_close_matches(name, makers, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no {kind} is named {name!r}; there are {', '.join(makers)}{hint}")
    cls, fixed = makers[name]
    parameters = {**fixed, **_parameters(kind, text, inside or "")}
    fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    known = [field.name for field in fields]
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
    needed = [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]
    missing = [field for field in needed if field not in parameters]
    if missing:
        raise ValueError(f"{name} needs {' and '.join(missing)}: write {name}({missing[0]}=…)")
    return cls(**parameters)


def _parameters(kind: str, text: str, inside: str) -> dict[str, Any]:
    """The keyword arguments written in brackets. Only literals: nothing is evaluated."""
    try:
        call = ast.parse(f"f({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        names = [word.arg for word in call.keywords]
        if None in names or len(set(names)) < len(names):
            raise ValueError
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(
            f"the parameters of {kind} {text!r} cannot be read; write each once as name=value, with "
            "numbers, 'text', True, False, None or [lists]"
        ) from None


def _check_plot(path: Path) -> None:
    """What would stop the figure is said before hours of simulation, not after."""
    from matplotlib.backend_bases import FigureCanvasBase

    if path.suffix.lower().removeprefix(".") not in FigureCanvasBase.filetypes:
        raise ValueError(f"--plot {path}: a figure's name ends in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ValueError(f"--plot {path}: there is no directory {path.parent}")


def _show(results: Results, plot: str | None) -> None:
    print(results)
    if plot is not None:
        results.plot(plot)
        print(f"Figure: {plot}")
