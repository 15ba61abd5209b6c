"""Policies × environment × trials → thinned regret curves, in a store that survives interruption."""

from linmed.simulation.attainable import attainable
from linmed.simulation.batch import checkpoints
from linmed.simulation.engine import processes
from linmed.simulation.results import Results, Run
from linmed.simulation.run import SimulationInterrupted, simulate
from linmed.simulation.stopping import Decided
from linmed.simulation.store import Store, StoreError, StoreWarning

__all__ = [
    "Decided",
    "Results",
    "Run",
    "SimulationInterrupted",
    "Store",
    "StoreError",
    "StoreWarning",
    "attainable",
    "checkpoints",
    "processes",
    "simulate",
]
