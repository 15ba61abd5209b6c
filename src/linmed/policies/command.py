"""`linmed policies`: the table of properties, from the policies' own declarations."""

import argparse
from typing import Any

from rich.console import Console

from linmed.policies.table import table


def add_parser(subparsers: Any) -> None:
    """Declare the command."""
    subparsers.add_parser("policies", help="the table of policies and their properties")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    Console().print(table())
    return 0
