"""An experiment of our own: clicks, where rewards are 0 or 1 and a logistic model is the right one."""

from linmed.paper.clicks.problems import ClickExperiment
from linmed.paper.clicks.run import run

__all__ = ["ClickExperiment", "run"]
