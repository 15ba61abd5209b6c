"""An experiment of our own: what forgetting costs where nothing changes, and what it gains where θ* moves."""

from functools import partial

from linmed.paper import own_report
from linmed.paper.drift import rules
from linmed.paper.drift.problems import Drift

run = partial(own_report.reproduce, Drift(), rules)

__all__ = ["Drift", "run"]
