"""Links that leave docs/, which work where the repository is shown, made to work on the site too.

The README is the site's home, CONTRIBUTING and its like are pages. Any other file of the repository that a
page links to gets a page that shows its text, so that a reader without a checkout can follow the link.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[2]
HOME = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Files of the root that are pages of the site."""
LANGUAGES = {".py": "python", ".cpp": "cpp", ".sh": "sh", ".yaml": "yaml", ".yml": "yaml", ".cff": "yaml"}
_FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def in_repository(uri: str) -> str:
    """Where the text of a page stands in the repository."""
    back = {page: path for path, page in HOME.items()}
    return back.get(uri, f"docs/{uri}")


def on_site(path: str) -> str:
    """Where the site shows a file of the repository."""
    if path in HOME:
        return HOME[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md"


def rewritten(text: str, uri: str) -> str:
    """The text of a page with its links as the site needs them."""
    here = in_repository(uri)

    def link(found: re.Match[str]) -> str:
        begin, target, anchor, end = found.groups()
        path = _path(here, target)
        if path is None:
            return found[0]
        return f"{begin}{relpath(on_site(path), PurePosixPath(uri).parent)}{anchor or ''}{end}"

    parts = _FENCED.split(text)  # every second part is code
    return "".join(part if i % 2 else _LINK.sub(link, part) for i, part in enumerate(parts))


def shown_sources(uris: list[str]) -> dict[str, str]:
    """A page for every file or folder that some page links to and that is no page itself."""
    found: dict[str, str] = {}
    for uri in uris:
        here = in_repository(uri)
        for part in _FENCED.split((ROOT / here).read_text())[::2]:
            paths = (_path(here, match[2]) for match in _LINK.finditer(part))
            for path in filter(None, paths):
                if on_site(path).startswith("source/"):
                    found[on_site(path)] = _source_page(path)
    return found


def _path(here: str, target: str) -> str | None:
    """A link's target as a path of the repository; None where it is none."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    path = normpath(PurePosixPath(here).parent / target)
    return path if (ROOT / path).exists() else None


def _source_page(path: str) -> str:
    files = [ROOT / path] if (ROOT / path).is_file() else sorted((ROOT / path).glob("*.*"))
    text = f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n"
    for file in files:
        heading = "" if len(files) == 1 else f"\n## {file.name}\n"
        text += f"{heading}\n~~~~{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text().rstrip()}\n~~~~\n"
    return text
