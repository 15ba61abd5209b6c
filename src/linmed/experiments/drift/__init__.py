"""An experiment of our own: what forgetting costs where nothing changes, and what it gains where θ* moves."""

from functools import partial

from linmed.experiments import own_report
from linmed.experiments.drift import rules
from linmed.experiments.drift.problems import Drift

run = partial(own_report.reproduce, Drift(), rules)

__all__ = ["Drift", "run"]
