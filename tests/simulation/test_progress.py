"""The progress bar: shown where someone can see it, silent elsewhere."""

import sys

import pytest

from linmed.environments import LargeGap
from linmed.policies import LinMED
from linmed.simulation import simulate


def test_a_terminal_shows_rate_and_time_left(capfd, monkeypatch):
    monkeypatch.setattr("linmed.report.progress.SELDOM", 0.0)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    simulate(LinMED(), LargeGap(), 3000, 4, batch=1)
    shown = capfd.readouterr().err
    assert shown.endswith("\r\x1b[2K")
    assert " rounds/s" in shown
    assert "0:00:00" in shown
    assert "100%" in shown
    assert max(map(len, shown.split("\r"))) <= len("\x1b[2K") + 119


@pytest.mark.parametrize("progress", [True, False])
def test_no_bar_without_a_terminal_or_when_not_wanted(capfd, progress):
    simulate(LinMED(), LargeGap(), 100, 2, progress=progress)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""
