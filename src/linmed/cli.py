"""The command line: parses, calls, prints. Each command's own module says what it takes and does it."""

import argparse
import io
import runpy
import sys
from collections.abc import Container, Sequence
from importlib import import_module
from pathlib import Path

import linmed

# command → (module with add_parser(subparsers) and run(args), one line of help). A module is imported
# only when its command is used, so that `linmed --help` needs none of the optional packages.
COMMANDS = {
    "reproduce": ("linmed.experiments.command", "rerun the paper's experiments and write a report"),
    "ledgers": ("linmed.experiments.ledgers_command", "the verdicts of several reports side by side"),
    "simulate": ("linmed.simulation.command", "run policies on a problem and compare their regret"),
    "policies": ("linmed.policies.command", "the table of policies and their properties"),
    "ope": ("linmed.ope.command", "what would another policy have earned on this log?"),
    "choose": ("linmed.ope.choose_command", "which of several policies earns most on this log?"),
    "compare": ("linmed.ope.compare_command", "an A/B test: groups of visitors against each other"),
    "verdict": ("linmed.ope.verdict_command", "which arm is the best by this log, and is that decided?"),
    "drift": ("linmed.ope.drift_command", "has the world changed while this log was written?"),
    "serve": ("linmed.serve.command", "the decision service"),
    "data": ("linmed.environments.command", "fetch the data sets that may not be shipped"),
    "bench": ("linmed.cli", "measure the speed of linmed and of its peers (from a source checkout)"),
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
            return _bench(words[words.index("bench") + 1 :])
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
        if command in wanted and module != __name__:
            import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(command, help=summary, add_help=command != "bench")
    return parser


def _bench(words: Sequence[str]) -> int:
    script = Path(linmed.__file__).resolve().parents[2] / "benchmarks" / "bench.py"
    if not script.is_file():
        raise ValueError("bench needs a source checkout of linmed: its programs live in benchmarks/")
    sys.argv = [str(script), *words]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
