"""Problems to try policies on: the paper's, clicks, worlds that change, real data; a base for one's own."""

from linmed.environments.base import Block, Environment
from linmed.environments.changing import ChangeEvery, OneChange, RandomWalk, Season
from linmed.environments.classification import Classification
from linmed.environments.clicks import Clicks, ClicksChange
from linmed.environments.delayed import Delayed
from linmed.environments.fixed import EndOfOptimism, FixedArms, LargeGap, RepeatedArms
from linmed.environments.movielens import MovieLens
from linmed.environments.news import News
from linmed.environments.open_bandit import OpenBanditClicks
from linmed.environments.pricing import Pricing
from linmed.environments.unit_ball import UnitBall

__all__ = [
    "Block",
    "ChangeEvery",
    "Classification",
    "Clicks",
    "ClicksChange",
    "Delayed",
    "EndOfOptimism",
    "Environment",
    "FixedArms",
    "LargeGap",
    "MovieLens",
    "News",
    "OneChange",
    "OpenBanditClicks",
    "Pricing",
    "RandomWalk",
    "RepeatedArms",
    "Season",
    "UnitBall",
]
