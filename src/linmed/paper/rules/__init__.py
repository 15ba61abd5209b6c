"""Every claim of the paper's empirical studies, with the rule that decides it: a file for each experiment.

They are committed before the runs that they judge, and the ledger prints both commits. Borders are the
paper's where it compares ("outperforms": a ratio of 1) or prints a number; where it says "close", "well" or
"significantly" they are ours, and say so. Factors are compared with one another wherever the paper compares
in words, and an improvement never counts against a policy.

What was known when these rules were written: ledgers of these experiments made by earlier rules, at the scale
of the paper (seed 0) and at the decisive one (seeds 2026 and 20261117). Ledgers for citing are therefore made
with a seed of which nothing was known, now 20261118. That protects from choosing rules by luck, not from
knowing what to expect.

Changed since the ledger of seed 2026, because the rule misstated the paper: (1) "Significantly" had been
taken for any difference at all, and is a factor of 1.1 now (delayed rewards: OFUL's rise and its contrast to
the others; unit ball: LinMED and a wrong σ; LinTS in end of optimism and where one version is left out). A
regret that rises by one per cent has not deteriorated significantly, and a factor 4 % above the others' is no
significant one. By what seed 2026 had measured, this decides most rows about delays against the paper, the
rows about LinMED and a wrong σ for it (LinMED-50's had failed by ×1.04 at d = 2), and no other. (2)
"Estimates are zero for some arms" had been taken for "that can happen"; asked now is whether the paper's
5,000 trials would show it. By what was known that fails with the text's settings. (3) LinTS-Freq's rise with
an over-specified σ has no row of its own any more for different d: the paper speaks there of its decline with
d, which has one. (4) Looks at growing trials are not fixed in number; each has a share of the level that
allows any number.

Changed since the ledger of seed 20261117: (5) The intervals did not cover. On 8,000 stored trials of large
gap the 95 % interval of LinMED-99's regret over OFUL's missed the truth, 1.93, in 55 % of the samples of 10
trials, 11 to 14 % of those of 50 and 8 to 9 % of those of 200. Every interval now reckons with what its
trials can have missed (`statistics`), and covers there at every number of trials. Large gap has 1,000 trials
at the first look, delays 200, arm count 100, the unit ball 60; end of optimism, whose trials are a million
rounds long, keeps 10. Expected by that: "LinMED is sufficiently close to OFUL" becomes undecided (the ratio
is about 1.93, the border 2), and so do many rows that rested on 10 or 50 trials and a ratio near their
border, most of them in end of optimism and on the unit ball; rows with a wide margin stay. Ratios have no
negative bounds any more. (6) The paper contradicts itself about the noise of end of optimism: σ* = 0.1 in the
main text, σ*² = 0.1 in the appendix. Both are played now, and each row says which. Known of the second, from
20 to 40 trials: LinMED-99's regret is about 0.8 to 1.2 times that of LinTS-Bayes there, where it is 3 to 6
times that with σ* = 0.1; so that row is expected to be undecided there instead of failing, and others may
differ. (7) Rows that were missing: that LinMED initially incurs regret by a₂; that 10⁵ samples are expensive;
the LinTS that the offline evaluation leaves out; that every algorithm deteriorates with d, at a wrong σ too;
and K = 10 in what is said for every K. (8) Statements of our own are counted apart.

Three rules were changed earlier after their results had been seen: the limit of LinMED's exponent (0.35 →
0.5) and the rows "at least √n" in commit 4dace8a, and the rule for delays in 1a99b0e.
"""

from linmed.paper.claims import Claim
from linmed.paper.experiment import Findings
from linmed.paper.rules.arm_count import arm_count
from linmed.paper.rules.delayed_rewards import delayed_rewards
from linmed.paper.rules.end_of_optimism import end_of_optimism
from linmed.paper.rules.large_gap import large_gap
from linmed.paper.rules.offline import offline_evaluation
from linmed.paper.rules.unit_ball import unit_ball_arms, unit_ball_dimension

MAKERS = {
    "offline-evaluation": offline_evaluation,
    "arm-count": arm_count,
    "large-gap": large_gap,
    "end-of-optimism": end_of_optimism,
    "end-of-optimism-appendix": end_of_optimism,
    "delayed-rewards": delayed_rewards,
    "unit-ball-dimension": unit_ball_dimension,
    "unit-ball-arms": unit_ball_arms,
}


def claims(found: Findings) -> list[Claim]:
    """What the paper says of an experiment; of the findings only the sizes and settings are looked at."""
    maker = MAKERS.get(found.experiment.name)
    return list(maker(found)) if maker else []
