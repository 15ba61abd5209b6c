"""An experiment of our own: what wrong guesses of σ and S cost, by policy and confidence set."""

from functools import partial

from linmed.paper import own_report
from linmed.paper.robustness import rules
from linmed.paper.robustness.problems import Robustness

run = partial(own_report.reproduce, Robustness(), rules)

__all__ = ["Robustness", "run"]
