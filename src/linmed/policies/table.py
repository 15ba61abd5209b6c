"""Policies by the names that people write, and the table of their properties beside the paper's Table 1."""

from collections.abc import Callable
from itertools import zip_longest
from textwrap import wrap

import numpy as np

from linmed import policies
from linmed.policies import (
    ALL,
    GLMMED,
    Budget,
    Disjoint,
    Forgetful,
    Hybrid,
    Limits,
    LinIMED,
    LinMED,
    LinMEDNoDesign,
    LinTS,
    LogisticMED,
    Policy,
    SpannerIGW,
)
from linmed.registry import Makers

LEGENDS: Makers[Policy] = {
    "LinMED-99": (LinMED, {"alpha_emp": 0.99}),
    "LinMED-90": (LinMED, {"alpha_emp": 0.90}),
    "LinMED-50": (LinMED, {"alpha_emp": 0.50}),
    "LinMEDNOPT": (LinMEDNoDesign, {}),
    "LinTS-Freq": (LinTS, {"scale": "frequentist"}),
    "LinTS-Bayes": (LinTS, {"scale": "bayes"}),
    "LinIMED-1": (LinIMED, {"version": 1}),
    "LinIMED-2": (LinIMED, {"version": 2}),
    "LinIMED-3": (LinIMED, {"version": 3}),
    "SpannerIGW-AT": (SpannerIGW, {}),
}
"""Names in the paper's legends that are no class's: a class and what they fix."""


def policy_makers() -> Makers[Policy]:
    """List every policy by the paper's short names, and by its class's name."""
    return {**LEGENDS, **{cls.__name__: (cls, {}) for cls in ALL}}


COLUMNS = (
    "policy",
    "reference",
    "minimax regret",
    "instance-dependent regret",
    "probability computable",
    "paper says",
    "all arms positive",
    "paper says",
    "randomised",
)
WIDTHS = (22, 15, 16, 13, 6)
"""Of the columns on a terminal."""
NOTES = (
    "Regret up to logarithmic factors and constants. no*: can be modified to give every arm a probability. "
    "N/A: the rule is deterministic. —: not in the paper's table."
)


def rows() -> list[tuple[str, ...]]:
    """Make a row of COLUMNS for each policy, from its declaration."""
    return [
        (
            policy.__name__,
            about.reference,
            about.minimax,
            about.instance,
            about.computable,
            about.paper_computable,
            about.all_arms,
            about.paper_all_arms,
            "yes" if about.randomised else "no",
        )
        for policy in ALL
        for about in (policy.properties,)
    ]


def text() -> str:
    """Write the table for a terminal of 80 columns; what the paper says stands below what we say."""
    ruled = tuple("─" * width for width in WIDTHS)
    lines = [*_lines("policy", "regret: worst", "probability", "every arm", "random"),
             *_lines("reference", "and instance", "", "", ""), "──".join(ruled)]  # fmt: skip
    for name, reference, minimax, instance, ours, papers, all_arms, papers_all, randomised in rows():
        lines += _lines(name, minimax, ours, all_arms, randomised)
        lines += [*_lines(reference, instance, f"paper: {papers}", f"paper: {papers_all}", ""), ""]
    return "\n".join([*lines, *wrap(NOTES, 80)])


def _lines(*cells: str) -> list[str]:
    """Write one row, of as many lines as its longest cell takes."""
    wrapped = [wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    lines = zip_longest(*wrapped, fillvalue="")
    return ["  ".join(map(str.ljust, line, WIDTHS)).rstrip() for line in lines]


def markdown() -> str:
    """Write the table for the documentation."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{NOTES}\n"


AROUND: dict[str, Callable[[Policy], Policy]] = {
    "one model": lambda base: base,
    "one per item": Disjoint,
    "hybrid": Hybrid,
    "one, forgets": Forgetful,
    "per item, forgets": lambda base: Disjoint(Forgetful(base)),
    "hybrid, forgets": lambda base: Hybrid(Forgetful(base)),
}
"""What can stand around a policy, by name: a model for every item, memories, or both."""


def bases() -> list[Policy]:
    """List every policy that can stand alone, and what it can be told or learn."""
    alone = [policy() for policy in ALL if policy not in (Budget, Disjoint, Hybrid, Forgetful, Limits)]
    learned = LinMED(sigma="unknown", ridge="learned")
    intercept, warm = LinMED(sigma="unknown", ridge="learned", intercept=True), LinMED(design="warm")
    told = LogisticMED(norm_bound=3.0), LogisticMED(norm_bound=3.0, confidence="certified")
    floor, even = LinMED(floor=0.1), LinMED(ties="even", version=1, design="optimal")
    unknown = LinMED(norm_bound="unknown"), policies.OFUL(ridge="learned"), policies.LinTS(ridge="learned")
    return [*alone, learned, intercept, *unknown, floor, even, warm, *told, GLMMED(family="poisson")]


def composed(base: Policy, around: Callable[[Policy], Policy]) -> tuple[Policy | None, str]:
    """Make a policy of these two and let it decide and learn; else say why it has no meaning.

    >>> from linmed import E2D, Disjoint, LogisticMED
    >>> composed(LogisticMED(), Disjoint)[0].name
    'Disjoint LogisticMED-90'
    >>> composed(E2D(), Disjoint)[1].split(",")[0]
    'base must be LinMED'
    """
    try:
        policy = around(base)
    except ValueError as error:
        return None, str(error).rsplit(", got ", 1)[0]
    rng, one = np.random.default_rng(0), np.zeros(1, dtype=np.int64)
    arms = policy.like(rng.normal(size=(4, 4)) / 2.0)[None]
    state = policy.start(1, arms.shape[2])
    for _ in range(8):
        choice = policy.decide(state, arms, policy.draw_noise(rng, (1,), arms.shape[2]))
        law = np.exp(policy.log_probabilities(state, arms))
        errors = policy.propensity_error(state, arms)
        within = 1e-9 if errors is None else 1e-9 + 6.0 * errors.sum()
        if not (abs(law.sum() - 1.0) <= within and law[0, choice.arm[0]] > 0.0):
            raise AssertionError(f"probabilities of {policy.name} sum to {law.sum()}")
        policy.learn(state, choice.features, np.array([float(choice.arm[0] == 2)]), one)
    return policy, ""


def compositions() -> str:
    """Make the table of compositions for the documentation; each cell is tried."""
    reasons: dict[str, int] = {}
    lines = [("base", *AROUND), ("---",) * (1 + len(AROUND))]
    for base in bases():
        cells = [composed(base, around) for around in AROUND.values()]
        marks = ("yes" if policy else str(reasons.setdefault(why, len(reasons) + 1)) for policy, why in cells)
        lines.append((base.name, *marks))
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + "\n\n" + "\n".join(f"{number}. {why}." for why, number in reasons.items()) + "\n"
