"""Pieces of HTML that several parts of the report use."""

import html

from linmed.paper.experiment import Numbers
from linmed.paper.lineup import Variant
from linmed.paper.statistics import Verdict
from linmed.report.figures import POLICY, variable

SIGN: dict[Verdict, str] = {"holds": "✓", "fails": "✗", "undecided": "?"}
SHORT: dict[Variant, str] = {"text": "text", "as-run": "as run"}
DESCRIBED: dict[Variant, str] = {
    "text": "as the paper's text describes the experiments",
    "as-run": "as the authors' public code (December 2024) runs them",
}


def text(words: str) -> str:
    """Escaped."""
    return html.escape(words, quote=False)


def attribute(words: str) -> str:
    """Escaped, for between quotation marks."""
    return html.escape(words, quote=True)


def badge(verdict: Verdict) -> str:
    """A verdict in its colour."""
    return f'<span class="verdict {verdict}">{SIGN[verdict]}&nbsp;{verdict}</span>'


def table(numbers: Numbers) -> str:
    """A table with its heading; a row that is a policy's has its colour."""
    head = "".join(f"<th>{text(column)}</th>" for column in numbers.columns)
    lines = []
    for row, (label, *cells) in enumerate(numbers.rows):
        marks = [
            ' class="best"' if (row, column) in numbers.best else "" for column in range(1, len(cells) + 1)
        ]
        texts = [f"<td{mark}>{text(cell)}</td>" for mark, cell in zip(marks, cells, strict=True)]
        lines.append(f'<tr><th scope="row">{_swatch(label)}{text(label)}</th>{"".join(texts)}</tr>')
    note = f"<p><small>{text(numbers.note)}</small></p>" if numbers.note else ""
    return (
        f"<h4>{text(numbers.heading)}</h4>"
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>{note}"
    )


def _swatch(label: str) -> str:
    if label not in POLICY:
        return ""
    return f'<i class="swatch" style="background:var({variable(POLICY[label])})"></i>'
