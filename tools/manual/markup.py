"""Markdown as GitHub reads it, written so that Python-Markdown reads the same."""

import re

_STARS = re.compile(
    r"""
    ^(?P<fence>```|~~~)[\s\S]*?^(?P=fence) | (?P<ticks>`+)[^`][\s\S]*?(?P=ticks)  # code
    | \\\* | \*\* | ^[ ]*\*[ ]  # already a star; strong emphasis; an entry of a list
    | (?<![\w*])\*(?=\S)(?:(?!\n\n)[^*])+?(?<=\S)\*(?![\w*])  # emphasis
    | (?P<star>\*)
    """,
    re.VERBOSE | re.MULTILINE,
)


def with_plain_stars(text: str) -> str:
    """The star of θ* stays a star, which Python-Markdown would take for the beginning of emphasis."""
    return _STARS.sub(lambda found: r"\*" if found["star"] else found[0], text)
