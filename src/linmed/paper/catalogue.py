"""The experiments by name, in the order of the report."""

from linmed.paper.arm_count import ArmCount
from linmed.paper.assumptions import Assumptions
from linmed.paper.delayed_rewards import DelayedRewards
from linmed.paper.end_of_optimism import EndOfOptimism, EndOfOptimismAppendix
from linmed.paper.experiment import Experiment
from linmed.paper.large_gap import LargeGap
from linmed.paper.lower_bounds import LowerBounds
from linmed.paper.offline import OfflineEvaluation
from linmed.paper.unit_ball import UnitBallArms, UnitBallDimension

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
