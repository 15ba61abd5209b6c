"""Policies × environment × trials → thinned regret curves, in a store that survives interruption."""

from linmed.simulation.environment_batch import attainable
from linmed.simulation.executors import processes
from linmed.simulation.results import Results, Run
from linmed.simulation.run import SimulationInterrupted, simulate
from linmed.simulation.stopping import Decided
from linmed.simulation.store import Store, StoreError, StoreWarning
from linmed.simulation.trials import checkpoints

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
