"""Decisions of a catalogue whose route was the fallback: they stand in a log without a probability."""

import math

import pyarrow as pa
import pytest

from linmed.log import DecisionLog, LogWriter
from linmed.validation import BadType, BadValue


def catalogue_log(place, rows=6):
    """Decisions of a catalogue of 1000 items, of which the first and every third was a fallback."""
    with LogWriter(place, flush_rows=4) as writer:
        for i in range(rows):
            fallback = i % 3 == 0
            writer.record(
                f"d{i}",
                arm=700 + i,
                arm_count=1000,
                arm_id=f"shoes-{700 + i}",
                log_probability=None if fallback else math.log(0.25),
                fallback=fallback,
                features=[1.0, 0.5],
                version=i,
                time=1e9 + i,
            )
            writer.reward(f"d{i}", float(i % 2), time=1e9 + 10 + i)
    return DecisionLog.open(place)


def test_fallbacks_are_written_and_read_again(tmp_path):
    table = catalogue_log(tmp_path / "log").table()
    assert table["fallback"].to_pylist() == [True, False, False, True, False, False]
    assert table["probability"].to_pylist() == [None, 0.25, 0.25, None, 0.25, 0.25]
    assert table["log_probability"].null_count == 2
    assert table["probabilities"].null_count == table["arms"].null_count == 6
    assert table["arm_id"].to_pylist()[0] == "shoes-700"


def test_a_decision_of_no_catalogue_leaves_it_out(tmp_path):
    with LogWriter(tmp_path / "log") as writer:
        writer.record("a", arm=0, arm_count=2, log_probability=math.log(0.5))
    assert DecisionLog.open(tmp_path / "log").table()["fallback"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"log_probability": -1.0, "fallback": True}, BadValue, "log_probability must be None where fall"),
        (
            {"log_probability": None, "log_probabilities": [-0.7, -0.7], "fallback": True},
            BadValue,
            "log_probabilities must be None where fallback",
        ),
        ({"log_probability": None}, BadType, "log_probability must be given: only where fallback is True"),
        ({"log_probability": -1.0, "fallback": "yes"}, BadType, "fallback must be True or False, got 'yes'"),
        ({"log_probability": -1.0, "arm": 2, "arm_id": "x"}, BadValue, "only an item's place in a catalogue"),
        (
            {"log_probability": -1.0, "arm": 2, "fallback": False, "arms": [[1.0], [2.0]]},
            BadValue,
            "arm must lie in 0..1",
        ),
        ({"log_probability": -1.0, "arm": -1, "fallback": False}, BadValue, "arm must lie in 0..1"),
    ],
)
def test_what_contradicts_itself_is_refused_and_leaves_nothing(tmp_path, given, error, said):
    with LogWriter(tmp_path / "log") as writer:
        with pytest.raises(error, match=said):
            writer.record("a", **{"arm": 1, "arm_count": 2, **given})
        writer.record("a", arm=1, arm_count=2, log_probability=None, fallback=True)
    assert len(DecisionLog.open(tmp_path / "log")) == 1


def test_the_place_of_an_item_may_be_beyond_those_that_are_left(tmp_path):
    """Items that were taken out keep their places, so 900 are left and place 950 is one of them."""
    with LogWriter(tmp_path / "log") as writer:
        writer.record("a", arm=950, arm_count=900, arm_id="hat-3", log_probability=-7.0, fallback=False)
    assert DecisionLog.open(tmp_path / "log").table()["arm"].to_pylist() == [950]


def test_views_know_fallbacks(tmp_path):
    log = catalogue_log(tmp_path / "log")
    assert len(log.where(fallback=True)) == 2
    assert len(log.where(fallback=[False, None])) == 4
    assert log[2:4].table()["fallback"].to_pylist() == [False, True]


@pytest.mark.parametrize("written", [["true", "false", ""], ["True", "False", ""], ["1", "0", ""]])
def test_a_csv_file_says_it_in_words_or_numbers(tmp_path, written):
    file = tmp_path / "log.csv"
    cells = [f"{i},{'' if i == 0 else 0.5},1,{text}" for i, text in enumerate(written)]
    file.write_text("\n".join(["arm,probability,reward,declined", *cells]) + "\n")
    table = DecisionLog.from_csv(file, {"fallback": "declined"}).table()
    assert table["fallback"].to_pylist() == [True, False, None]
    assert table["probability"].to_pylist() == [None, 0.5, 0.5]


def test_a_table_has_them_as_booleans_or_as_numbers():
    columns = {"arm": [0, 1], "probability": [None, 0.5], "reward": [1.0, 0.0]}
    for given in ([True, False], [1, 0], pa.array([1.0, 0.0])):
        table = DecisionLog.from_table({**columns, "fallback": given}).table()
        assert table["fallback"].to_pylist() == [True, False]
        assert table.schema.field("fallback").type == pa.bool_()


@pytest.mark.parametrize("given", [[2, 0], ["maybe", "no"], [float("nan"), 0.0]])
def test_what_is_neither_true_nor_false_is_named(given):
    columns = {"arm": [0, 1], "probability": [None, 0.5], "reward": [1.0, 0.0], "fallback": given}
    with pytest.raises(ValueError, match=r"column 'fallback' cannot be read as fallback .* true or false"):
        DecisionLog.from_table(columns)


def test_formats_that_have_no_place_for_them_say_so(tmp_path):
    log = catalogue_log(tmp_path / "log")
    with pytest.raises(ValueError, match=r"obp has no place .* 2 \(fallbacks"):
        log.to_obp()
    with pytest.raises(ValueError, match=r"no place for a decision without a probability.*: row 0"):
        log.to_dsjson(tmp_path / "log.json")
    assert not (tmp_path / "log.json").exists()


def test_what_the_law_of_a_decision_depended_on_is_written(tmp_path):
    with LogWriter(tmp_path / "log") as writer:
        writer.record("a", arm=3, arm_count=9, log_probability=None, fallback=True, best=3,
                      catalogue_version=4, context=[0.5, -1.0])  # fmt: skip
        writer.record("b", arm=3, arm_count=9, log_probability=-1.0, fallback=False)
    log = DecisionLog.open(tmp_path / "log")
    table = log.table(["best", "catalogue_version", "context"]).to_pylist()
    assert table[0] == {"best": 3, "catalogue_version": 4, "context": [0.5, -1.0]}
    assert table[1] == {"best": None, "catalogue_version": None, "context": None}
    assert log.save(tmp_path / "saved").table().equals(log.table())


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"best": -1}, "best must lie in 0.."),
        ({"catalogue_version": 1.5}, "catalogue_version must be a whole number"),
        ({"context": [math.nan]}, "context"),
        ({"context": [[1.0]]}, "context must have 1 axes"),
    ],
)
def test_what_is_wrong_of_it_is_named(tmp_path, wrong, match):
    with LogWriter(tmp_path / "log") as writer, pytest.raises((BadValue, BadType), match=match):
        writer.record("a", arm=0, arm_count=2, log_probability=-1.0, fallback=False, **wrong)


def test_columns_of_these_names_in_other_peoples_tables_are_theirs(tmp_path):
    rows = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]}
    theirs = {"context": ["home", "away"], "best": [0.5, 0.7], "catalogue_version": ["v1", "v2"]}
    log = DecisionLog.from_table({**rows, **theirs})
    assert {name: log.table()[name].to_pylist() for name in theirs} == theirs
    assert len(log.where(context="home")) == 1
    file = tmp_path / "log.csv"
    file.write_text("arm,probability,reward,context,best\n0,0.5,1,home,x\n1,0.5,0,away,\n")
    table = DecisionLog.from_csv(file).table()
    assert (table["context"].to_pylist(), table["best"].to_pylist()) == (["home", "away"], ["x", None])
