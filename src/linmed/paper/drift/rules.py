"""What we expect of forgetting without a rate, with the rule that decides: ours, not the paper's.

The file is committed before the trials that it judges; the ledger prints its digest. For "the best fixed
half-life" each of ∞, 1000, 200 and 50 rewards stands in turn: all must hold, none is chosen after the fact.

What was known when these rules were written: 60 trials of an earlier program in four of these worlds
(Forgetful 56.7 where nothing changes, never forgetting 56.5; after one change 127, the best fixed half-life
232; with a change every 500 rounds 336 against 367; on the walk 173 against 164), and 40 trials of never
forgetting alone by this one. Nothing of the season, the prices, D-LinUCB and SW-LinUCB, of which nothing is
claimed.
"""

from linmed.paper.claims import Between, Claim, Part, final, of
from linmed.paper.drift.problems import FIXED, NEVER, OFTEN, ONCE, OURS, STILL, WALK
from linmed.paper.experiment import Findings
from linmed.paper.statistics import ratio

COST = 1.2
"""What forgetting may cost where nothing changes, as a factor of never forgetting."""
GAIN = 0.7
"""Of the best fixed half-life's regret, at most, after one change."""
NO_WORSE = 1.1
"""Of the best fixed half-life's regret, at most, where changes come again and again, or all the time."""


def claims(found: Findings) -> list[Claim]:
    """All of them; of the findings nothing is looked at."""
    return [
        Claim(
            STILL, "Where nothing changes, not being told so costs at most a fifth",
            f"regret is at most {COST} times that of never forgetting", "ours",
            [_against(STILL, NEVER, COST)], "drift",
        ),
        Claim(
            ONCE, "After one change regret is far below that of every fixed half-life",
            f"regret is at most {GAIN} times that of each of {_named()}", "ours",
            [_against(ONCE, other, GAIN) for other in FIXED], "drift",
        ),
        *(
            Claim(
                world, f"No fixed half-life is much better: {world}",
                f"regret is at most {NO_WORSE} times that of each of {_named()}", "ours",
                [_against(world, other, NO_WORSE) for other in FIXED], "drift",
            )
            for world in (OFTEN, WALK)
        ),
    ]  # fmt: skip


def _named() -> str:
    return ", ".join(FIXED)


def _against(world: str, other: str, most: float) -> Part:
    return Part(f"{other}: ×{{}}", of(ratio, final(OURS, world), final(other, world)), Between(high=most))
