"""Functions, commands, the HTTP API and the clients know the same options with the same defaults."""

import argparse
import inspect
import typing

import pytest

from linmed.cli.log_options import add_question
from linmed.log import BATCH
from linmed.ope import DecisionLog, Question, Replay, choose, compare, difference, evaluate, sequence
from linmed.question import DEFAULTS, OPTIONS, TYPES, options_of
from linmed.serve.client import AsyncClient, Client
from linmed.serve.schemas import EvaluateRequest

FUNCTIONS = (evaluate, sequence, difference, choose, compare, Client.evaluate, AsyncClient.evaluate)
LOG = DecisionLog.from_table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [0.0, 1.0]})


@pytest.mark.parametrize("function", [*FUNCTIONS, Replay.run])
def test_every_function_has_the_defaults_and_types_of_the_question(function):
    names = options_of(function)
    assert {"confidence", "reward_range", "missing", "mature"} <= set(names)
    hints = typing.get_type_hints(Question)
    for name in names:
        parameter = inspect.signature(function).parameters[name]
        assert parameter.default == DEFAULTS[name], name
        assert parameter.annotation == hints[name], name


def test_evaluate_takes_every_option_and_reads_as_many_rows_as_a_log_does():
    assert set(options_of(evaluate)) == set(OPTIONS) == set(TYPES)
    assert DEFAULTS["batch"] == BATCH


@pytest.mark.parametrize("function", FUNCTIONS[:5])
def test_an_option_that_a_function_does_not_take_is_a_type_error_that_names_it(function):
    other = next((name for name in OPTIONS if name not in options_of(function)), "halflife")
    given = (LOG, "arm:1", "arm:0") if function is difference else (LOG, "arm:1")
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected .*'{other}'"):
        function(*given[: 1 if function is compare else 3], **{other: 1})


def test_the_service_and_its_clients_take_the_same_options():
    served = {name for name, option in OPTIONS.items() if option.served}
    assert set(EvaluateRequest.model_fields) == served | {"targets", "estimators"}
    assert set(options_of(Client.evaluate)) == served
    for name in served:
        assert EvaluateRequest.model_fields[name].default == DEFAULTS[name]
        assert EvaluateRequest.model_fields[name].description == OPTIONS[name].meaning


def test_a_command_has_a_flag_for_each_option_that_text_can_give():
    parser = argparse.ArgumentParser()
    add_question(parser, evaluate)
    given = vars(parser.parse_args([]))
    assert given == {name: DEFAULTS[name] for name, option in OPTIONS.items() if option.metavar}
    said = ["--missing", "0", "--mature", "6h", "--since", "50", "--reward-range", "0", "2"]
    asked = parser.parse_args(said)
    assert (asked.missing, asked.mature, asked.since) == (0.0, 21600.0, "50")
    assert Question(**{k: v for k, v in vars(asked).items() if v is not None}).reward_range == (0.0, 2.0)
