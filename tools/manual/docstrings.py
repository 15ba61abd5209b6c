"""Docstrings, which are plain text with doctests, as Markdown: an extension of griffe for mkdocstrings."""

import sys
from pathlib import Path

from griffe import Extension, Object

sys.path.insert(0, str(Path(__file__).parent))
from markup import with_plain_stars


class Docstrings(Extension):
    """Doctests become blocks of code."""

    def on_instance(self, *, obj: Object, **kwargs: object) -> None:
        """Called with everything that was found in the source."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Paragraphs as they are, doctests fenced."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(">>> ") and not fenced:
            lines += ["", "```pycon"]
            fenced = True
        elif fenced and not line.strip():
            lines.append("```")
            fenced = False
        lines.append(line)
    return with_plain_stars("\n".join([*lines, "```"] if fenced else lines))
