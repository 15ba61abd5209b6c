"""`linmed data`: fetch the data sets that may not be shipped."""

import argparse
import sys
from typing import Any

from linmed.environments.datasets import URL, download


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `data` to the subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "data",
        help="fetch the data sets that may not be shipped",
        description=f"Download MovieLens 100K from its publisher ({URL}), check it against the sum published "
        "beside it and unpack it. What is already there is checked and kept.",
    )
    parser.add_argument("name", choices=("movielens",), help="the data set")
    parser.add_argument("--out", default="data", metavar="DIR", help="where ml-100k goes (default: data)")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 if the data are there, 1 if they cannot be had."""
    try:
        directory = download(args.out)
    except (OSError, ValueError) as error:
        print(f"linmed data: {error}", file=sys.stderr)
        return 1
    print(f"MovieLens 100K: {directory}")
    print(f"Use it with: linmed reproduce delayed-rewards --movielens {directory}")
    return 0
