"""The table of policies and their properties: the paper's Table 1 with our column beside it."""

from itertools import zip_longest
from textwrap import wrap

from linmed.policies import ALL

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
    """One row of COLUMNS for each policy, from its own declaration."""
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
    """The table for a terminal of 80 columns; what the paper says stands below what we say."""
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
    """The table for the documentation."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{NOTES}\n"
