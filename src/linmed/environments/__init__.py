"""Problems to try policies on: the paper's, clicks, worlds that change, real data; a base for one's own."""

from linmed.environments.base import Block, Environment
from linmed.environments.changing import ChangeEvery, OneChange, Pricing, RandomWalk, Season
from linmed.environments.clicks import Clicks, ClicksChange, News
from linmed.environments.datasets import Classification, MovieLens, OpenBanditClicks
from linmed.environments.delayed import Delayed
from linmed.environments.list_clicks import ListClicks
from linmed.environments.priced import Priced
from linmed.environments.synthetic import EndOfOptimism, FixedArms, LargeGap, RepeatedArms, UnitBall

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
    "ListClicks",
    "MovieLens",
    "News",
    "OneChange",
    "OpenBanditClicks",
    "Priced",
    "Pricing",
    "RandomWalk",
    "RepeatedArms",
    "Season",
    "UnitBall",
]
