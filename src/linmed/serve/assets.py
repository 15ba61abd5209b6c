"""The files of the page: what is served under which path, to everyone, for they show nobody's data."""

from importlib.resources import files

_FOLDER = files("linmed.serve").joinpath("page")
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def _path(name: str) -> str:
    return "/" if name == "index.html" else f"/{name}"


PAGE = {
    _path(file.name): (file.read_bytes(), _KINDS[file.name.rpartition(".")[2]])
    for file in _FOLDER.iterdir()
    if file.name.rpartition(".")[2] in _KINDS
}
"""Path → content and its type."""
