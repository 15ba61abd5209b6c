"""Simulate policies by name on a problem by name; print their table; fetch data."""

import argparse
import sys

from linmed.environments import Delayed, Environment, Priced
from linmed.environments.datasets import URL, download
from linmed.files import PICTURES, check_place
from linmed.policies.table import policy_makers, text
from linmed.registry import Makers, concrete_subclasses, parse
from linmed.simulation.results import Results
from linmed.simulation.run import SimulationInterrupted, simulate
from linmed.simulation.stopping import Decided


def add_simulate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `simulate`."""
    parser.description = (
        "Run policies on a problem and compare their regret. A policy or problem is a name, with "
        'parameters in brackets where they differ from the defaults: LinMED-90, \'LinTS(scale="bayes", '
        "sigma=0.5)', 'UnitBall(arms=50, dim=10)'."
    )
    parser.epilog = f"Policies: {', '.join(policy_makers())}. Problems: {', '.join(environment_makers())}."
    add = parser.add_argument
    add("policies", nargs="+", metavar="POLICY", help="which policies")
    add("--on", required=True, metavar="PROBLEM", help="which problem")
    add("--delay", type=int, default=0, metavar="N", help="rewards arrive N rounds late")
    add("--horizon", type=int, default=10_000, metavar="N", help="rounds (default: 10000)")
    add("--trials", type=int, default=20, metavar="N", help="default: 20")
    add("--seed", type=int, default=0, metavar="N", help="default: 0")
    decided = "end each trial when it is decided which arm is the best, wrong with this probability at most"
    add("--until-decided", type=float, metavar="DELTA", help=decided)
    add("--workers", type=int, metavar="N", help="threads (default: as many as help)")
    add("--store", metavar="DIR", help="keep finished trials here, and resume from them")
    add("--plot", metavar="FILE", help="draw the regret (.png, .svg or .pdf)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 if all was simulated, 130 after Ctrl-C."""
    policies = [parse("policy", said, policy_makers()) for said in args.policies]
    environment = parse("problem", args.on, environment_makers())
    if args.delay:
        environment = Delayed(environment, rounds=args.delay)
    check_place(args.plot, PICTURES)
    sizes = args.horizon, args.trials, args.seed
    until = None if args.until_decided is None else Decided(args.until_decided)
    try:
        results = simulate(policies, environment, *sizes, store=args.store, workers=args.workers, until=until)
    except SimulationInterrupted as interrupt:
        print("interrupted; the trials that had finished:", file=sys.stderr)
        _show(interrupt.results, None)
        return 130
    _show(results, args.plot)
    return 0


def environment_makers() -> Makers[Environment]:
    """Every environment of the package but those around another one; a delay is an option of its own."""
    known = sorted(concrete_subclasses(Environment), key=lambda cls: cls.__name__)
    own = [cls for cls in known if cls.__module__.startswith("linmed.") and cls not in (Delayed, Priced)]
    return {cls.__name__: (cls, {}) for cls in own}


def _show(results: Results, plot: str | None) -> None:
    print(results)
    if plot is not None:
        results.plot(plot)
        print(f"Figure: {plot}")


# ---- the other commands


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `data`."""
    parser.description = (
        f"Download MovieLens 100K from its publisher ({URL}), check it against the sum published "
        "beside it and unpack it. What is already there is checked and kept."
    )
    parser.add_argument("name", choices=("movielens",), help="the data set")
    parser.add_argument("--out", default="data", metavar="DIR", help="where ml-100k goes (default: data)")
    parser.set_defaults(run=fetch)


def fetch(args: argparse.Namespace) -> int:
    """Fetch them; the exit status is 0."""
    directory = download(args.out)
    print(f"MovieLens 100K: {directory}")
    print(f"Use it with: linmed reproduce delayed-rewards --movielens {directory}")
    return 0


def add_policies(parser: argparse.ArgumentParser) -> None:
    """Add nothing but what `policies` does."""
    parser.set_defaults(run=print_policies)


def print_policies(args: argparse.Namespace) -> int:
    """Print the table of properties, from the policies' own declarations."""
    print(text())
    return 0
