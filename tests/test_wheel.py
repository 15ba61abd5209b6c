"""What is uploaded: the wheel and the source archive hold what they should, and the wheel works by itself."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.test_docs import ROOT, python_blocks

pytest.importorskip("hatchling", reason="it builds the wheel")
PACKAGE = ROOT / "src" / "linmed"


def build(project: Path, kind: str, into: Path) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(into)]
    subprocess.run(words, cwd=project, check=True, capture_output=True)
    (made,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def files(wheel: Path) -> set[str]:
    """But for its metadata, which is a folder beside the package."""
    with zipfile.ZipFile(wheel) as found:
        return {name for name in found.namelist() if not PurePosixPath(name).parts[0].endswith(".dist-info")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_the_package_with_its_pages_and_nothing_else(wheel: Path) -> None:
    ours = [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert files(wheel) == {file.relative_to(PACKAGE.parent).as_posix() for file in ours}
    assert {"linmed/py.typed", "linmed/serve/page/index.html", "linmed/ope/page.css"} <= files(wheel)


def test_the_source_archive_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(ROOT, "sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (project,) = (tmp_path / "source").iterdir()
    assert {"tests", "docs", "examples", "benchmarks", "LICENSE"} <= {path.name for path in project.iterdir()}
    assert files(build(project, "wheel", tmp_path / "again")) == files(wheel)


def test_the_wheel_alone_runs_the_readme(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as found:
        found.extractall(tmp_path / "packages")
    if sys.platform != "win32":  # kernels are found by their source, so these need not be compiled again
        (tmp_path / "packages/linmed/kernels/__pycache__").symlink_to(PACKAGE / "kernels" / "__pycache__")
    (tmp_path / "empty").mkdir()
    (example,) = python_blocks(ROOT / "README.md")
    code = f"{example}\nimport linmed\nprint(linmed.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "empty",
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(tmp_path / "packages")
    assert [file.name for file in (tmp_path / "empty").iterdir()] == ["agent.npz"]
