"""The manual builds without a warning and without a network, and everything in it leads somewhere."""

import dataclasses
import os
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import linmed
from linmed.cli import COMMANDS
from linmed.log import SCHEMA
from linmed.policies import ALL

ROOT = Path(__file__).parent.parent
OFFLINE = """
import socket, sys
def refuse(*args):
    raise OSError("the manual is built without a network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli()
"""
MODULES = ["linmed", *(f"linmed.{name}" for name in ("policies", "features", "ope", "log", "environments"))]
MODULES += ["linmed.simulation", "linmed.serve.client"]
FUNCTIONS = ["theory.Problem", "design.optimal_design", "insight.Verdict", "insight.Drift"]


class Page(HTMLParser):
    """A built page: what can be linked to, and what it links to or loads."""

    def __init__(self, path: Path):
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value for key, value in attrs if value is not None}
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        target = found.get("href", found.get("src"))
        if target is not None:
            (self.links if tag == "a" else self.loaded).append(target)


def build(site: Path) -> None:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", OFFLINE, "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


def astray(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Links and files that are not there, and whatever a page would load from elsewhere."""
    found = []
    for path, page in pages.items():
        here = path.relative_to(site)
        for target in (*page.links, *page.loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    found.append(f"{here} loads {target}")
                continue
            leads = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not leads.is_file():
                found.append(f"{here} links to {target}")
            elif parts.fragment and leads in pages and unquote(parts.fragment) not in pages[leads].anchors:
                found.append(f"{here} links to {target}, where no such place is")
    return found


def untold(site: Path) -> list[str]:
    """What the reference leaves out: public names, parameters of policies, commands, requests, columns."""

    @cache
    def text(name: str) -> str:
        return (site / name).read_text(encoding="utf-8")

    everything = "".join(text(path.name) for path in site.glob("reference-*.html"))
    documented = set(re.findall(r'id="(linmed\.[\w.]+)"', everything))
    found = [f"linmed.{name}" for name in FUNCTIONS if f"linmed.{name}" not in documented]
    for module in MODULES:
        named = text(f"reference-{module.rpartition('.')[2]}.html")
        for name in import_module(module).__all__:
            if f"{module}.{name}" not in documented and f"<code>{name}</code></a>" not in named:
                found.append(f"{module}.{name}")
    sections = re.split(r'<h2 id="linmed\.policies\.(\w+)"', text("reference-policies.html"))
    tables = defaultdict(str, zip(sections[1::2], sections[2::2], strict=True))
    for policy in ALL:
        section = tables[policy.__name__]
        rows = dict(re.findall(r"<tr>\s*<td><code>(\w+)</code></td>(.*?)</tr>", section, re.S))
        for field in dataclasses.fields(policy):
            if not re.search(r"</code><br\s*/?>\s*\S", rows.get(field.name, "").replace("</td>", "")):
                found.append(f"{policy.__name__}.{field.name}")
    found += [f"linmed {name}" for name in COMMANDS if f'id="linmed-{name}"' not in text("cli.html")]
    for option in ("--since", "--revoke-token", "--scale"):
        found += [option] if f"<code>{option}" not in text("cli.html") else []
    for request in ("post-v1-bandits-name-decide", "put-v1-bandits-name-items-item-id", "errorview"):
        found += [request] if f'id="{request}"' not in text("http-api.html") else []
    found += [name for name in SCHEMA.names if f"<td><code>{name}</code></td>" not in text("log-schema.html")]
    return found


def misread(pages: dict[Path, Page]) -> list[str]:
    """Markdown that came out as text: entries of lists within a paragraph, rows of tables, stars, fences."""
    found = []
    for path, page in pages.items():
        article = page.text.partition("<article")[2].partition("</article>")[0]
        plain = re.sub(r"<(pre|code)\b.*?</\1>", "", article, flags=re.S)
        for paragraph in re.findall(r"<p>(.*?)</p>", plain, flags=re.S):
            if re.search(r"^\s*(?:[-*] |1\. |\||```|>>> )|\*\*|\\\*", paragraph, flags=re.M):
                found.append(f"{path.name}: {paragraph[:100]}")
        for emphasis in re.findall(r"<em>(.*?)</em>", plain, flags=re.S):
            if not re.match(r"\w", emphasis):
                found.append(f"{path.name}: emphasis {emphasis[:100]}")
    return found


def test_the_manual_builds_and_is_whole(tmp_path):
    site = tmp_path / "site"
    build(site)
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    assert len(pages) > 40
    assert astray(site, pages) == []
    assert untold(site) == []
    assert misread(pages) == []
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "LinMED" in index
    assert linmed.__doc__ in pages[site / "index.html"].text
