"""The table of policies and their properties: the paper's Table 1 with our column beside it."""

from rich.table import Table

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


def table() -> Table:
    """The table for a terminal."""
    drawn = Table(caption=NOTES, caption_justify="left", show_lines=True)
    for name in COLUMNS:
        drawn.add_column(name, overflow="fold")
    for row in rows():
        drawn.add_row(*row)
    return drawn


def markdown() -> str:
    """The table for the documentation."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{NOTES}\n"
