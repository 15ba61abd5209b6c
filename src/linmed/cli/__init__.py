"""The command line: parses, calls, prints. Each command's own module says what it takes and does it."""

import argparse
import io
import sys
from collections.abc import Container, Sequence
from importlib import import_module

import linmed
from linmed.cli import bench

# command → (module with add_parser(subparsers) and run(args), one line of help). A module is imported
# only when its command is used, so that `linmed --help` needs none of the optional packages.
COMMANDS = {
    "reproduce": ("linmed.cli.reproduce", "rerun the paper's experiments and write a report"),
    "ledgers": ("linmed.cli.ledgers", "the verdicts of several reports side by side"),
    "simulate": ("linmed.cli.simulate", "run policies on a problem and compare their regret"),
    "policies": ("linmed.cli.policies", "the table of policies and their properties"),
    "ope": ("linmed.cli.ope", "what would another policy have earned on this log?"),
    "choose": ("linmed.cli.choose", "which of several policies earns most on this log?"),
    "compare": ("linmed.cli.compare", "an A/B test: groups of visitors against each other"),
    "verdict": ("linmed.cli.verdict", "which arm is the best by this log, and is that decided?"),
    "drift": ("linmed.cli.drift", "has the world changed while this log was written?"),
    "serve": ("linmed.cli.serve", "the decision service"),
    "data": ("linmed.cli.data", "fetch the data sets that may not be shipped"),
    "bench": ("linmed.cli.bench", "measure the speed of linmed and of its peers (from a source checkout)"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe on Windows may know no √: better a ? than no table
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        parser = build_parser({chosen})
        if chosen == "bench":
            return bench.run(words[words.index("bench") + 1 :])
        args = parser.parse_args(words)
        return int(import_module(COMMANDS[args.command][0]).run(args))
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"linmed: error: {error}", file=sys.stderr)
        return 2


def build_parser(wanted: Container[str | None]) -> argparse.ArgumentParser:
    """The parser of all commands, those that are `wanted` with their options."""
    parser = argparse.ArgumentParser(
        "linmed",
        description=linmed.__doc__,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
    )
    parser.add_argument("--version", action="version", version=f"linmed {linmed.__version__}")
    subparsers = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND [-h]", required=True
    )
    for command, (module, summary) in COMMANDS.items():
        if command in wanted and command != "bench":
            import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(command, help=summary, add_help=command != "bench")
    return parser
