"""The command line: what it prints, and how it fails."""

import os
import subprocess
import sys

import pytest

from linmed import __version__
from linmed.cli import COMMANDS, main
from linmed.policies import ALL


def test_help_lists_every_command_and_loads_nothing_heavy():
    code = "import atexit, sys; from linmed.cli import main\n"
    code += "atexit.register(lambda: print('numpy' in sys.modules))\nmain(['--help'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    lines = out.splitlines()
    assert all(
        any(command in line and text in line for line in lines) for command, (_, text) in COMMANDS.items()
    )
    assert out.split()[-1] == "False"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])  # the first is that of a pipe on Windows
def test_what_is_printed_is_utf_8_whatever_the_system_says(encoding):
    words = [sys.executable, "-m", "linmed.cli", "policies"]
    done = subprocess.run(words, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "d √n" in done.stdout.decode()


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.split() == ["linmed", __version__]


def test_policies_prints_a_row_for_every_policy(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["policies"]) == 0
    out = capsys.readouterr().out
    assert all(policy.__name__ in out for policy in ALL)


@pytest.mark.parametrize("words", [[], ["nonsense"]])
def test_bad_commands_are_refused_with_the_usage(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: linmed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["OFUL", "--on", "LargeGap", "--plot", "nowhere/x.png"], "there is no directory nowhere"),
        (["OFUL", "--on", "LargeGap", "--plot", "x.wav"], "ends in .png, .svg or .pdf"),
        (["OFUL", "--on", "LargeGap", "--plot", "x"], "ends in .png, .svg or .pdf"),
        (["OFUL", "--on", "FixedArms"], "FixedArms needs arms and theta"),
        (["OFUL(sigma=0.5)(label='x')", "--on", "LargeGap"], "cannot be read"),
        (["OFUL(sigma=0.5, sigma=0.6)", "--on", "LargeGap"], "each once"),
        (["OFUL", "--on", "LargeGap", "--horizon", "99999999999999999999"], "horizon must lie in"),
        (["OFUL", "--on", "LargeGap", "--trials", "99999999999999999999"], "trials must lie in"),
        (["OFUL", "--on", "LargeGap", "--delay", "99999999999999999999"], "rounds must lie in"),
    ],
)
def test_a_simulation_that_cannot_be_is_refused_before_it_begins(
    words, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *words, "--store", "s"]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("s/trials/*"))


def test_errors_are_one_line_without_a_traceback(tmp_path, capsys):
    assert main(["ope", str(tmp_path / "nowhere"), "--target", "uniform"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("linmed")
    assert "Traceback" not in err
