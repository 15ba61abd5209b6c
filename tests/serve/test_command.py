"""The command line of the service, where nothing is served."""

import argparse

import pytest

from linmed.serve import command


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
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["serve", "--database", sqlite, *words])
    assert args.run(args) == 2
    assert capsys.readouterr().err == f"linmed serve: {option} is empty\n"
