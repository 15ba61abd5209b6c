"""`linmed policies`: the table of properties, from the policies' own declarations."""

import argparse
from typing import Any

from linmed.policies.table import text


def add_parser(subparsers: Any) -> None:
    """Declare the command."""
    subparsers.add_parser("policies", help="the table of policies and their properties")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    print(text())
    return 0
