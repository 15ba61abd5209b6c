"""One experiment's part of the page: what it is, its figures, its numbers, for each variant."""

from collections.abc import Sequence

from linmed.paper.downloads import link, numbers_csv
from linmed.paper.drawing import Drawing
from linmed.paper.experiment import Findings
from linmed.paper.markup import table, text


def section(ran: Sequence[tuple[Findings, Sequence[Drawing]]]) -> str:
    """Text first, then as run, where there are both."""
    experiment = ran[0][0].experiment
    data = link(
        numbers_csv([found for found, _ in ran]), f"{experiment.name}.csv", "text/csv", "numbers as CSV"
    )
    parts = [
        f'<section id="{experiment.name}"><h2>{text(experiment.title)}</h2>',
        f"<p>{text(experiment.about)} <small>({text(experiment.place)}; {data})</small></p>",
    ]
    for found, drawn in ran:
        parts += _variant(found, drawn)
    return "\n".join([*parts, "</section>"])


def _variant(found: Findings, drawn: Sequence[Drawing]) -> list[str]:
    experiment = found.experiment
    named = "As the text has it" if found.variant == "text" else "As the public code runs it"
    more = (
        f", up to {found.most_trials:,} where claims needed them" if found.most_trials > found.trials else ""
    )
    parts = [
        f"<h3>{named}</h3>",
        f"<p>{found.horizon:,} rounds × {found.trials:,} trials{more}, seed {found.seed}.</p>",
        *(f'<p class="note">{text(note)}</p>' for note in found.notes),
        _differences(found),
    ]
    for drawing in drawn:
        parts.append(
            f'<figure id="figure-{drawing.name}"><div class="scroll">{drawing.inline()}</div>'
            f"<figcaption>{text(drawing.caption)}</figcaption></figure>"
        )
        parts += [f"<p>{text(drawing.text)}</p>"] if drawing.text else []
    return [*parts, *map(table, experiment.numbers(found))]


def _differences(found: Findings) -> str:
    experiment = found.experiment
    if found.variant == "text":
        intro, items = "The public code differs:", list(experiment.differences)
    else:
        intro, items = "Unlike the text:", list(experiment.differences)
    if not items:
        return ""
    listed = "".join(f"<li>{text(item)}</li>" for item in items)
    return f"<details><summary>{intro}</summary><ul>{listed}</ul></details>"
