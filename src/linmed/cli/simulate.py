"""`linmed simulate`: policies by name on an environment by name."""

import argparse
import sys
from pathlib import Path
from typing import Any

from linmed.environments import Delayed, Environment
from linmed.policies.table import policy_makers
from linmed.registry import Makers, concrete_subclasses, parse
from linmed.simulation.results import Results
from linmed.simulation.run import SimulationInterrupted, simulate
from linmed.simulation.stopping import Decided
from linmed.simulation.store import StoreError


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
    parser.add_argument(
        "--until-decided",
        type=float,
        metavar="DELTA",
        help="end each trial when it is decided which arm is the best, wrong with this probability at most",
    )
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
        until = None if args.until_decided is None else Decided(args.until_decided)
        results = simulate(policies, environment, *sizes, store=args.store, workers=args.workers, until=until)
    except SimulationInterrupted as interrupt:
        print("interrupted; the trials that had finished:", file=sys.stderr)
        _show(interrupt.results, None)
        return 130
    except (StoreError, OSError, TypeError, ValueError, ImportError) as error:
        print(f"linmed simulate: {error}", file=sys.stderr)
        return 2
    _show(results, args.plot)
    return 0


def environment_makers() -> Makers[Environment]:
    """Every environment of the package; a delay is an option of its own."""
    known = sorted(concrete_subclasses(Environment), key=lambda cls: cls.__name__)
    own = [cls for cls in known if cls.__module__.startswith("linmed.") and cls is not Delayed]
    return {cls.__name__: (cls, {}) for cls in own}


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
