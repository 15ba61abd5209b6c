"""`python -m linmed.serve` is `linmed serve`."""

import argparse
import sys

from linmed.serve import command

parser = argparse.ArgumentParser(prog="python -m")
command.add_parser(parser.add_subparsers(required=True))
sys.exit(command.run(parser.parse_args(["serve", *sys.argv[1:]])))
