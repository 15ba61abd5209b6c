"""An experiment of our own: what wrong guesses of σ and S cost, by policy and confidence set."""

from linmed.experiments.robustness.problems import Robustness
from linmed.experiments.robustness.run import run

__all__ = ["Robustness", "run"]
