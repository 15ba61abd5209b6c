"""The experiments by name, in the order of the report."""

from linmed.experiments.arm_count import ArmCount
from linmed.experiments.assumptions import Assumptions
from linmed.experiments.delayed_rewards import DelayedRewards
from linmed.experiments.end_of_optimism import EndOfOptimism, EndOfOptimismAppendix
from linmed.experiments.experiment import Experiment
from linmed.experiments.large_gap import LargeGap
from linmed.experiments.lower_bounds import LowerBounds
from linmed.experiments.offline import OfflineEvaluation
from linmed.experiments.unit_ball import UnitBallArms, UnitBallDimension

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        OfflineEvaluation(),
        ArmCount(),
        LargeGap(),
        EndOfOptimism(),
        EndOfOptimismAppendix(),
        DelayedRewards(),
        UnitBallDimension(),
        UnitBallArms(),
        LowerBounds(),
        Assumptions(),
    )
}
