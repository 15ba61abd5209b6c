"""The command line of the service."""

import argparse
import http.client
import subprocess
import sys

import pytest

from linmed.cli import serve as command


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--create-token", ""], "--create-token"),
        (["--create-token", "admin", "--bandit", ""], "--bandit"),
        (["--revoke-token", ""], "--revoke-token"),
        (["--import", "", "--bandit", "b"], "--import"),
    ],
)
def test_an_empty_value_is_refused_instead_of_serving(
    sqlite: str,
    words: list[str],
    option: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve(*_: object) -> int:
        raise AssertionError("it serves")

    monkeypatch.setattr(command, "_serve", serve)
    parser = argparse.ArgumentParser()
    command.add_serve(parser)
    args = parser.parse_args(["--database", sqlite, *words])
    assert args.run(args) == 2
    assert capsys.readouterr().err == f"linmed serve: {option} is empty\n"


@pytest.mark.unix
def test_the_address_that_is_printed_can_be_connected_to_at_once(sqlite: str) -> None:
    words = [sys.executable, "-m", "linmed.cli", "serve", "--database", sqlite, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            host = server.stdout.readline().split("/")[2]
            connection = http.client.HTTPConnection(host, timeout=120)
            connection.request("GET", "/healthz")  # it is not asked twice
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            server.terminate()
