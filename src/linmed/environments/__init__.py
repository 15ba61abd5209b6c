"""Problems to try policies on: the paper's, real data, clicks, news, delays, and a base for one's own."""

from linmed.environments.base import Block, Environment
from linmed.environments.classification import Classification
from linmed.environments.clicks import Clicks
from linmed.environments.delayed import Delayed
from linmed.environments.fixed import EndOfOptimism, FixedArms, LargeGap, RepeatedArms
from linmed.environments.movielens import MovieLens
from linmed.environments.news import News
from linmed.environments.open_bandit import OpenBanditClicks
from linmed.environments.unit_ball import UnitBall

__all__ = [
    "Block",
    "Classification",
    "Clicks",
    "Delayed",
    "EndOfOptimism",
    "Environment",
    "FixedArms",
    "LargeGap",
    "MovieLens",
    "News",
    "OpenBanditClicks",
    "RepeatedArms",
    "UnitBall",
]
