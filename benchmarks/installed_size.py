"""How large an installation is: megabytes on disk for each dependency and each extra.

    python benchmarks/installed_size.py                                     # of the environment it runs in
    python benchmarks/installed_size.py --document docs/dependencies.md     # and puts the tables there

Reads what pip has written down (nothing is installed or fetched), so it wants an environment that has
`linmed[all]`; `make setup` makes one. Bytecode, which is written as modules are imported, or by pip for all
of them, is not counted.
"""

import argparse
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from report import document, show, table

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_OURSELVES = {"dev", "docs", "all"}
"""Extras for those who work on linmed, and the one that is all others."""


def requirements(extra: str = "") -> list[Requirement]:
    """What a plain linmed requires, or an extra on top of it; extras that it is made of are written out."""
    texts = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = [Requirement(text) for text in texts]
    own = [need for need in found if need.name == "linmed"]
    inner = [need for one in own for part in sorted(one.extras) for need in requirements(part)]
    return [*inner, *(need for need in found if need.name != "linmed" and wanted(need))]


def wanted(need: Requirement, extra: str = "") -> bool:
    """Whether it is required on this system, with this extra of the package that names it."""
    return need.marker is None or need.marker.evaluate({"extra": extra})


def brought(need: Requirement, already: set[str]) -> dict[str, float]:
    """The packages that it adds to these, by name, in megabytes."""
    name = canonicalize_name(need.name)
    package = distribution(name)
    inner = [Requirement(text) for text in package.requires or ()]
    found = {} if name in already else {name: megabytes(package)}
    for one in inner:
        by_extra = any(wanted(one, extra) for extra in need.extras)
        if (found and wanted(one)) or (by_extra and not wanted(one)):
            found |= brought(one, already | found.keys())
    return found


def megabytes(package: Distribution) -> float:
    """On disk."""
    files = [Path(str(package.locate_file(file))) for file in package.files or ()]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.is_file()) / 1e6


def own() -> float:
    """linmed itself, its compiled core among it."""
    files = [file for file in (ROOT / "src" / "linmed").rglob("*") if "__pycache__" not in file.parts]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def row(name: str, found: dict[str, float]) -> list[str]:
    """A package or an extra: which packages come with it, and their megabytes together."""
    others = sorted(((mb, other) for other, mb in found.items() if other != name), reverse=True)
    parts = [f"{other} {mb:.0f}" for mb, other in others if mb >= 1]
    if small := sum(mb < 1 for mb, _ in others):
        parts.append(f"{small} under 1")
    return [name, ", ".join(parts), f"{sum(found.values()):.1f}"]


def plain() -> tuple[list[list[str]], set[str]]:
    """A row for each dependency, with what only it brings along; and the names of all packages."""
    needs = {canonicalize_name(need.name): need for need in requirements()}
    rows, names, together = [], set(needs), own()
    for name, need in needs.items():
        found = brought(need, names - {name})
        names |= found.keys()
        together += sum(found.values())
        rows.append(row(name, found))
    rows.sort(key=lambda cells: -float(cells[-1]))
    return [row("linmed", {"linmed": own()}), *rows, ["**together**", "", f"**{together:.0f}**"]], names


def extras(already: set[str]) -> list[list[str]]:
    """A row for each extra, with what it adds to a plain installation."""
    rows, every = [], dict[str, float]()
    for extra in sorted(PROJECT["optional-dependencies"].keys() - FOR_OURSELVES):
        found: dict[str, float] = {}
        for need in requirements(extra):
            found |= brought(need, already | found.keys())
        every |= found
        rows.append(row(extra, found))
    return [*rows, ["**all**", "", f"**{sum(every.values()):.0f}**"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--document", type=Path, help="a page with the marks <!-- sizes -->")
    args = parser.parse_args()
    try:
        rows, names = plain()
        more = extras(names)
    except PackageNotFoundError as missing:
        sys.exit(f"{missing} is not installed here: pip install 'linmed[all]', or make setup")
    show(table("A plain installation", ["package", "what only it brings along, MB", "MB"], rows, words=2))
    show(table("What an extra adds to it", ["extra", "packages, MB", "MB"], more, words=2))
    if args.document is not None:
        document(args.document, "sizes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
