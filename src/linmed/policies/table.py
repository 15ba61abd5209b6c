"""Policies by the names that people write, and the table of their properties beside the paper's Table 1."""

from itertools import zip_longest
from textwrap import wrap

from linmed.policies import ALL, LinIMED, LinMED, LinMEDNoDesign, LinTS, Policy, SpannerIGW
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
    """One row, of as many lines as its longest cell takes."""
    wrapped = [wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    lines = zip_longest(*wrapped, fillvalue="")
    return ["  ".join(map(str.ljust, line, WIDTHS)).rstrip() for line in lines]


def markdown() -> str:
    """Write the table for the documentation."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{NOTES}\n"
