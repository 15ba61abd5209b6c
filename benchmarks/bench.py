"""The speed of linmed: beside its peers, beside C++, and as problems grow.

python benchmarks/bench.py [PART…] [--quick] [--json FILE]     (or: make bench)

Parts: peers, kernels, growth; all of them unless some are named. Figures are to be compared
within one run: other programs on the machine move them.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from report import ONE_THREAD, SHAPES, SHOWN, document, machine, show

os.environ.update(ONE_THREAD)  # before NumPy is loaded; threads of our own are counted by us
PARTS = ("peers", "kernels", "growth")


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a few minutes, coarse figures")
    parser.add_argument("--repeats", type=int, help="repeats of every measurement (default 5, quick 2)")
    parser.add_argument("--seconds", type=float, help="at most this long per repeat (default 1, quick 0.2)")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, on a busy machine"
    )
    parser.add_argument("--peers", nargs="*", default=[], metavar="NAME", help="only these peers")
    parser.add_argument("--json", type=Path, default=Path("out/bench.json"), help="where all figures go")
    parser.add_argument(
        "--document", type=Path, metavar="PAGE", help="write the tables into docs/performance.md"
    )
    args = parser.parse_args(words)
    unknown = sorted(set(args.parts) - set(PARTS))
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(PARTS)}")
    args.parts = args.parts or list(PARTS)
    args.repeats = args.repeats or (2 if args.quick else 5)
    args.seconds = args.seconds or (0.2 if args.quick else 1.0)
    return args


def main(words: list[str]) -> None:
    args = parse(words)
    results: dict[str, Any] = {}
    for part in args.parts:
        print(f"## {part}\n", flush=True)
        SHOWN.clear()
        here = machine()
        show(", ".join(f"{key} {value}" for key, value in here.items()) + "\n")
        results[part] = {"machine": here, **measure(part, args)}
        if args.document:
            document(args.document, part)
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1))
    print(f"all figures: {args.json}")


def measure(part: str, args: argparse.Namespace) -> Any:
    """Imports are here because each part loads what another may do without."""
    if part == "peers":
        import libraries

        return libraries.run(SHAPES, args.repeats, args.seconds, args.clock, args.peers)
    if part == "kernels":
        import kernels

        return kernels.run(SHAPES, args.repeats, args.seconds)
    import growth

    return growth.run(args.repeats, args.quick, args.clock)


if __name__ == "__main__":
    main(sys.argv[1:])
