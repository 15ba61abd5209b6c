"""The table of policies and their properties: the paper's Table 1 with our column beside it."""

from rich import box
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
    """The table for a terminal of 80 columns; what the paper says stands below what we say."""
    drawn = Table(caption=NOTES, caption_justify="left", box=box.SIMPLE_HEAD, show_lines=True, pad_edge=False)
    headings = ("policy\n[dim]reference", "regret: worst\nand instance", "probability")
    for heading in (*headings, "every arm", "random"):
        drawn.add_column(heading, min_width=6)
    for name, reference, minimax, instance, ours, papers, all_arms, papers_all, randomised in rows():
        drawn.add_row(
            f"[bold]{name}[/bold]\n[dim]{reference}[/dim]",
            f"{minimax}\n{instance}",
            f"{ours}\n[dim]paper: {papers}[/dim]",
            f"{all_arms}\n[dim]paper: {papers_all}[/dim]",
            randomised,
        )
    return drawn


def markdown() -> str:
    """The table for the documentation."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{NOTES}\n"
