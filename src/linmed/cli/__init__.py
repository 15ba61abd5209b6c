"""Run the command line: parse, call, print. Each command's module says what it takes and does it."""

import argparse
import io
import sys
from collections.abc import Container, Sequence
from importlib import import_module

import linmed

COMMANDS = {
    "reproduce": ("reproduce:add_reproduce", "rerun the paper's experiments and write a report"),
    "simulate": ("simulate:add_simulate", "run policies on a problem and compare their regret"),
    "policies": ("simulate:add_policies", "the table of policies and their properties"),
    "ope": ("ope:add_ope", "what would another policy have earned on this log?"),
    "choose": ("choose_policy:add_choose", "which of several policies earns most on this log?"),
    "compare": ("compare_groups:add_compare", "an A/B test: groups of visitors against each other"),
    "verdict": ("reward_model:add_verdict", "which arm is the best by this log, and is that decided?"),
    "drift": ("reward_model:add_drift", "has the world changed while this log was written?"),
    "serve": ("serve:add_serve", "the decision service"),
    "data": ("simulate:add_data", "fetch the data sets that may not be shipped"),
}
"""Command → the module of this package and its function that adds the command's arguments to a parser, and a
line of help. A module is imported only when its command is used, so that `linmed --help` needs none of the
optional packages."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe on Windows would know no √
            stream.reconfigure(encoding="utf-8")
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        parser = build_parser({chosen})
        args = parser.parse_args(words)
        return int(args.run(args))
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"linmed: error: {error}", file=sys.stderr)
        return 2


def build_parser(wanted: Container[str | None]) -> argparse.ArgumentParser:
    """Build the parser of all commands, those that are `wanted` with their options."""
    parser = argparse.ArgumentParser(
        "linmed",
        description=linmed.__doc__,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
    )
    parser.add_argument("--version", action="version", version=f"linmed {linmed.__version__}")
    subparsers = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND [-h]", required=True
    )
    for command, (place, summary) in COMMANDS.items():
        module, _, add = place.partition(":")
        own = subparsers.add_parser(command, help=summary)
        if command in wanted:
            getattr(import_module(f"linmed.cli.{module}"), add)(own)
    return parser
