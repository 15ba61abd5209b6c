"""The wheel and the source archive hold what they should, and the wheel works with NumPy alone."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from tests.test_docs import ROOT, python_blocks

pytest.importorskip("scikit_build_core", reason="it builds the wheel")
pytest.importorskip("nanobind", reason="it binds the core")
PACKAGE = ROOT / "src" / "linmed"
COMPILED = (".so", ".pyd")


def run(*words: object, **options: object) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, text=True, timeout=600, **options
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", into, ROOT)
    (made,) = into.glob("*.whl")
    return made


def files(wheel: Path) -> set[str]:
    """But for its metadata, which is a folder beside the package."""
    with zipfile.ZipFile(wheel) as found:
        return {name for name in found.namelist() if not PurePosixPath(name).parts[0].endswith(".dist-info")}


def test_the_wheel_is_the_package_with_its_pages_and_its_core(wheel: Path) -> None:
    ours = [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    expected = {file.relative_to(PACKAGE.parent).as_posix() for file in ours if file.suffix not in COMPILED}
    found = files(wheel)
    assert {name for name in found if not name.endswith(COMPILED)} == expected
    assert {"linmed/py.typed", "linmed/serve/page/index.html", "linmed/report/page.css"} <= found
    assert any(name.startswith("linmed/_core") for name in found)


def test_the_source_archive_has_what_builds_and_tests_it(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, 'tools'); import build_backend as b; b.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, tmp_path, cwd=ROOT)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in archive.getnames()}
    tracked = run("git", "ls-files", "src", "core", "tools", "tests", "examples", cwd=ROOT).stdout.split("\n")
    assert {name for name in tracked if name} <= names
    assert {"LICENSE", "README.md", "pyproject.toml", "Makefile"} <= names
    assert not {name for name in names if name.endswith(COMPILED)}  # as an editable install has them


@pytest.mark.unix
@pytest.mark.parametrize(
    ("compiler", "sentence"),
    [
        ("no-such-compiler", "the compiler no-such-compiler does not work: set CXX to another one"),
        ("/bin/true", "the core needs GCC 11, Clang 14 or a later one, not /bin/true"),
    ],
)
def test_a_build_that_fails_ends_in_a_sentence_and_leaves_nothing_behind(
    tmp_path: Path, compiler: str, sentence: str
) -> None:
    code = "import sys; sys.path.insert(0, 'tools'); import build_backend as b; place = sys.argv[1]; "
    code += "b.build_wheel(place, {'build-dir': f'{place}/build'})"
    words = [sys.executable, "-c", code, str(tmp_path)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "CXX": compiler}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"linmed: the core was not built: {sentence}" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "build").exists()


@pytest.mark.unix
def test_the_wheel_alone_runs_the_readme_with_numpy_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    (packages,) = (home / "lib").glob("python*/site-packages")
    for folder in Path(np.__file__).parents[1].glob("numpy*"):
        (packages / folder.name).symlink_to(folder)
    with zipfile.ZipFile(wheel) as found:
        found.extractall(packages)
    (tmp_path / "empty").mkdir()
    example = python_blocks(ROOT / "README.md")[0]
    lacks = "try:\n    Agent(LinMED(), dim=2, log='log')\nexcept ImportError as error:\n    print(error)"
    code = f"{example}\nimport linmed\nprint(linmed.__file__)\n{lacks}"
    done = run(python, "-c", code, cwd=tmp_path / "empty")
    *_, place, missing = done.stdout.splitlines()
    assert Path(place).is_relative_to(packages)
    assert missing == "linmed.log needs pyarrow: pip install 'linmed[log]'"
    assert [file.name for file in (tmp_path / "empty").iterdir()] == ["agent.npz"]
