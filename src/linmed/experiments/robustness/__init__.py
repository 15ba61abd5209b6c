"""An experiment of our own: what wrong guesses of σ and S cost, by policy and confidence set."""

from functools import partial

from linmed.experiments import own_report
from linmed.experiments.robustness import rules
from linmed.experiments.robustness.problems import Robustness

run = partial(own_report.reproduce, Robustness(), rules)

__all__ = ["Robustness", "run"]
