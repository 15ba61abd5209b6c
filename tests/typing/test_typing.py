"""Whoever installs linmed gets its types (`make lint` asks pyright the same)."""

from pathlib import Path

from tests.typing.outside import check


def test_examples_and_typical_uses_are_typed_for_who_installs_linmed(tmp_path: Path) -> None:
    done = check("mypy", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
