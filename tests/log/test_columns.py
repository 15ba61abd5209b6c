"""Any table, Parquet or CSV as a log: columns by other names, arms that are names, values of other types."""

import pickle
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from linmed.log import DecisionLog, parse_columns
from linmed.ope import evaluate
from tests.blame import blames

NAMES = {"arm": "item", "reward": "click", "probability": "p", "time": "when", "features": ["x", "y"]}
DATA = {
    "item": ["shoe", "hat", "tie", "hat"],
    "click": [True, False, None, True],
    "p": [0.5, 0.25, 0.25, 1.0],
    "when": ["2024-05-01T12:00:00Z", "2024-05-01 14:00:01+02:00", "2024-05-01T12:00:02.5", "2024-05-02"],
    "x": [1, 2, 3, 4],
    "y": [0.5, 0.25, 0.125, 4.0],
    "variant": ["a", "b", "b", None],
    "size": [1, 2, 3, 4],
}
MOMENTS = [
    datetime(2024, 5, 1, 12, tzinfo=UTC),
    datetime(2024, 5, 1, 12, 0, 1, tzinfo=UTC),
    datetime(2024, 5, 1, 12, 0, 2, 500_000, tzinfo=UTC),
    datetime(2024, 5, 2, tzinfo=UTC),
]
EXPECTED = {
    "time": MOMENTS,
    "arm": [1, 0, 2, 0],
    "arm_id": ["shoe", "hat", "tie", "hat"],
    "arm_count": [3, 3, 3, 3],
    "features": [[1.0, 0.5], [2.0, 0.25], [3.0, 0.125], [4.0, 4.0]],
    "probability": [0.5, 0.25, 0.25, 1.0],
    "reward": [1.0, 0.0, None, 1.0],
    "variant": ["a", "b", "b", None],
    "size": [1, 2, 3, 4],
}


def opened(form: str, place, data: dict, columns: dict | None = None, **options) -> DecisionLog:
    """The same data as one kind of log."""
    table = pa.table(data)
    if form == "table":
        return DecisionLog.from_table(table, columns)
    if form == "csv":
        pv.write_csv(table, place / "log.csv")
        return DecisionLog.from_csv(place / "log.csv", columns, **options)
    if form == "file":
        pq.write_table(table, place / "log.parquet")
        return DecisionLog.open(place / "log.parquet", columns)
    (place / "folder" / "day=1").mkdir(parents=True)
    (place / "folder" / "_delta").mkdir()
    (place / "folder" / "_delta" / "x.parquet").write_bytes(b"not ours")
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), place / "folder" / "day=1" / "a.parquet")
    pq.write_table(table.slice(half), place / "folder" / "day=1" / "b.parquet")
    return DecisionLog.open(place / "folder", columns)


EVERY = ("table", "csv", "file", "folder")


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.filterwarnings("ignore:.* were not judged:linmed.ope.OPEWarning")
def test_columns_are_mapped_and_read_as_the_logs_types(tmp_path, form):
    log = opened(form, tmp_path, DATA, NAMES)
    assert log.columns == list(EXPECTED)
    assert log.table().to_pydict() == EXPECTED
    for rows in (1, 3):
        assert pa.Table.from_batches(log.batches(rows=rows)).to_pydict() == EXPECTED
    for name in log.columns:
        assert log.table([name]).to_pydict() == {name: EXPECTED[name]}
    again = pickle.loads(pickle.dumps(log))
    assert again.table(["arm", "reward"]).to_pydict() == {name: EXPECTED[name] for name in ("arm", "reward")}
    found = evaluate(log, "uniform", "ipw", interval="none", missing="skip")["estimate"][0].as_py()
    assert found == pytest.approx((1 / 3 / 0.5 + 1 / 3) / 3)


@pytest.mark.parametrize("form", EVERY)
def test_names_that_are_the_logs_own_need_no_mapping(tmp_path, form):
    data = {"arm": ["b", "a"], "probability": [0.5, 0.5], "reward": [True, False], "time": [10, 11.5]}
    log = opened(form, tmp_path, data)
    assert log.table().to_pydict() == {
        "time": [datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 11, 500_000, UTC)],
        "arm": [1, 0],
        "arm_id": ["b", "a"],
        "arm_count": [2, 2],
        "probability": [0.5, 0.5],
        "reward": [1.0, 0.0],
    }


@pytest.mark.parametrize("form", EVERY)
def test_numbers_stand_for_every_row(tmp_path, form):
    data = {"arm": ["b", "a", "b"], "reward": [1, 0, 1], "q": [0.1, 0.2, 0.3], "r": [0.9, 0.8, 0.7]}
    log = opened(form, tmp_path, data, {"probability": 1 / 3, "arm_count": 5})
    assert log.table(["probability", "arm_count"]).to_pydict() == {
        "probability": [1 / 3] * 3,
        "arm_count": [5] * 3,
    }
    assert log.table(["arm_count"])["arm_count"].to_pylist() == [5] * 3
    both = opened("table", tmp_path, data, {"probability": 0.5, "probabilities": ["q", "r"], "features": "q"})
    assert both.table()["probabilities"].to_pylist() == [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]
    assert both.table()["features"].to_pylist() == [[0.1], [0.2], [0.3]]


@pytest.mark.parametrize("form", ["table", "file", "folder"])
def test_lists_tell_the_number_of_arms(tmp_path, form):
    data = {
        "arm": [0, 1],
        "probability": [0.5, 0.2],
        "reward": [1, 0],
        "probabilities": [[0.5, 0.5], [0.8, 0.2]],
    }
    log = opened(form, tmp_path, data)
    assert log.table(["arm_count"])["arm_count"].to_pylist() == [2, 2]
    assert evaluate(log, "uniform", "ipw", interval="none")["estimate"][0].as_py() == pytest.approx(0.5)


@pytest.mark.parametrize("form", EVERY)
def test_arms_are_numbered_alike_in_every_part_of_a_log(tmp_path, form):
    data = {"arm": ["z", "z", "é", "a"], "reward": [1, 0, 1, 0], "day": [1, 1, 2, 2]}
    log = opened(form, tmp_path, data, {"probability": 0.5})
    assert log.table(["arm"])["arm"].to_pylist() == [1, 1, 2, 0]
    for part in (log[:2], log.where(day=1), log.where(arm_id="z")):
        assert part.table(["arm", "arm_count"]).to_pylist() == [{"arm": 1, "arm_count": 3}] * 2
    parts = [row for piece in log.pieces() for row in piece.table(["arm"])["arm"].to_pylist()]
    assert parts == [1, 1, 2, 0]
    assert log.where(arm_id="é").table()["arm"].to_pylist() == [2]


@pytest.mark.parametrize("kind", ["bool", "dictionary", "large"])
def test_names_of_other_types_are_names(kind):
    arms = {
        "bool": pa.array([True, False, None]),
        "dictionary": pa.array(["b", "a", None]).dictionary_encode(),
        "large": pa.array(["b", "a", None], pa.large_string()),
    }[kind]
    log = DecisionLog.from_table(pa.table({"arm": arms, "probability": [0.5] * 3, "reward": [1.0] * 3}))
    assert log.table()["arm"].to_pylist() == [1, 0, None]
    assert log.table()["arm_count"].to_pylist() == [2] * 3


def test_names_of_ones_own_stay_beside_those_of_the_arms():
    data = {"arm": ["b", "a"], "sku": ["B-1", "A-1"], "probability": [0.5, 0.5], "reward": [1, 0]}
    assert DecisionLog.from_table(data, {"arm_id": "sku"}).table()["arm_id"].to_pylist() == ["B-1", "A-1"]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1714564800, 1714564801]),
        pa.array([1714564800.0, 1714564801.0]),
        pa.array([1714564800000, 1714564801000], pa.timestamp("ms")),
        pa.array([1714564800000000001, 1714564801000000002], pa.timestamp("ns", "Europe/Paris")),
        pa.array(["1714564800", "2024-05-01T12:00:01Z"]),
        pa.array(["2024-05-01T12:00:00.0000000Z", " 2024-05-01T14:00:01+0200"]),
        pa.array([datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12, 0, 1)]),
        pa.array(["2024-05-01T12:00:00Z", "2024-05-01T12:00:01Z"]).dictionary_encode(),
    ],
    ids=lambda times: str(times.type),
)
def test_times_of_all_kinds_are_times(times):
    data = {
        "arm": pa.array([0, 0]),
        "probability": pa.array([1.0, 1.0]),
        "reward": pa.array([1, 1]),
        "time": times,
    }
    assert DecisionLog.from_table(pa.table(data)).table()["time"].to_pylist() == MOMENTS[:2]


def test_days_are_times_and_those_without_one_are_none():
    data = {"arm": [0, 0], "probability": [1.0, 1.0], "reward": [1, 1]}
    days = DecisionLog.from_table(data | {"time": [date(2024, 5, 2), None]})
    assert days.table()["time"].to_pylist() == [MOMENTS[3], None]
    assert DecisionLog.from_table(data | {"time": [None, None]}).table()["time"].to_pylist() == [None, None]


BAD = {
    "reward": ("click", ["1", "0", "yes", "1"], "'yes', a number is expected"),
    "probability": ("p", ["0.5", "0.5", "half", "1"], "'half', a number is expected"),
    "time": ("when", ["2024-05-01", "1714564800", "soon", "1"], "'soon', a time .* is expected"),
    "features": ("x", ["1", "2", "three", "4"], "'three', a number is expected"),
    "version": ("round", ["1", "2", "2.5", "4"], "'2.5', a whole number is expected"),
}


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize("name", list(BAD))
def test_a_value_that_cannot_be_read_is_named_with_its_row(tmp_path, form, name):
    column, values, message = BAD[name]
    data = {"item": DATA["item"], "click": [1, 0, 1, 1], "p": DATA["p"], "x": DATA["x"]} | {column: values}
    columns = {
        "arm": "item",
        "reward": "click",
        "probability": "p",
        name: [column] if column == "x" else column,
    }
    place = "line 4" if form == "csv" else "row 2"
    whole = rf"{place}: column {column!r} cannot be read as {name} \(.*\): it has {message}"
    with pytest.raises(ValueError, match=whole):
        opened(form, tmp_path, data, columns).table()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("arm", {"a": 1}, r"'arm' cannot be read as arm .*it has {'a': 1}"),
        ("reward", [1], r"'reward' cannot be read as reward .*it has \[1\], a number is expected"),
        ("features", ["a"], r"'features' cannot be read as features .*it has \['a'\], a list of numbers"),
        ("features", "a", r"'features' cannot be read as features .*it has 'a', a number is expected"),
        ("arms", 3, r"'arms' cannot be read as arms .*it has 3, a list of lists of numbers is expected"),
        ("probabilities", {"a": 1}, r"'probabilities' cannot be read.*it has {'a': 1}"),
    ],
)
def test_a_column_of_another_kind_is_named(name, value, message):
    data = {"arm": [0], "probability": [1.0], "reward": [1]}
    with pytest.raises(ValueError, match=f"the table, row 0: column {message}"):
        DecisionLog.from_table(data | {name: [value]})


def test_milliseconds_are_not_taken_for_seconds():
    data = {"arm": [0], "probability": [1.0], "reward": [1], "time": [1_714_564_800_000]}
    with pytest.raises(ValueError, match=r"row 0: column 'time' cannot be read as time.*years 1 to 9999"):
        DecisionLog.from_table(data)


def test_columns_of_the_file_that_nobody_reads_are_not_converted(tmp_path):
    log = opened("csv", tmp_path, DATA | {"click": ["1", "0", "x", "1"]}, NAMES)
    assert log.table(["arm", "probability"]).num_rows == 4
    with pytest.raises(ValueError, match="line 4"):
        log.table(["reward"])


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize(
    ("columns", "field", "message"),
    [
        ({"arm": "nope"}, "columns", "maps 'arm' to 'nope', but .* has the columns 'item', 'click', 'p'"),
        ({"features": ["x", "nope"]}, "columns", "maps 'features' to 'nope', but .* has the columns"),
        ({"what": "item"}, "columns", "columns maps 'what', which is none of decision_id, time"),
        ({"arm": ["item", "x"]}, "columns", "maps 'arm' to several columns; only features and probabilities"),
        ({"reward": 1.0}, "columns", "maps 'reward' to a number; only arm_count and probability"),
        ({"arm": None}, "columns", "must map 'arm' to a column, got None"),
        ({"features": []}, "columns", r"must map 'features' to a column, got \[\]"),
        ({"probability": True}, "columns", "must map 'probability' to a column, got True"),
        ({"probability": 1.5}, "probability", r"probability must lie in \(0, 1\], got 1.5"),
        ({"probability": 0.0}, "probability", r"probability must lie in \(0, 1\], got 0.0"),
        ({"arm_count": 0}, "arm_count", "arm_count must be at least 1"),
        ({"arm_count": 2.5}, "arm_count", "arm_count must be a whole number"),
        (["item"], "columns", "columns must be a mapping"),
    ],
)
def test_wrong_mappings_are_explained_wherever_they_are_given(tmp_path, form, columns, field, message):
    with blames(field, message):
        opened(form, tmp_path, DATA, columns if isinstance(columns, list) else NAMES | columns)


@pytest.mark.parametrize("form", EVERY)
def test_a_table_that_is_no_log_says_what_it_lacks(tmp_path, form):
    with pytest.raises(ValueError, match=r"has no arm, probability, reward .*it has 'item', 'click', 'p'"):
        opened(form, tmp_path, {name: DATA[name] for name in ("item", "click", "p")})
    with pytest.raises(TypeError, match="must be a pyarrow, pandas or polars table"):
        DecisionLog.from_table(3)


def test_columns_on_a_command_line():
    written = (
        " reward = click, arm=item ,features=a+b+ c,probabilities=p,probability=1/3,arm_count=3,time=t=0"
    )
    assert parse_columns(written) == {
        "reward": "click",
        "arm": "item",
        "features": ["a", "b", "c"],
        "probabilities": "p",
        "probability": 1 / 3,
        "arm_count": 3,
        "time": "t=0",
    }
    assert parse_columns("probability=share,arm_count=k") == {"probability": "share", "arm_count": "k"}
    assert parse_columns("probability=1e-2,reward=1") == {"probability": 0.01, "reward": "1"}


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("", "columns", "must be written like reward=click,arm=item,features=a.b, got ''"),
        ("reward", "columns", "got 'reward'"),
        ("reward=", "columns", "got 'reward='"),
        ("reward=a,,arm=b", "columns", "got ''"),
        ("reward=a,reward=b", "columns", "maps 'reward' twice"),
        ("click=reward", "columns", "maps 'click', which is none of decision_id, time"),
        ("features=a++b", "columns", "a column's name is missing beside a '.'"),
        ("probability=2", "probability", r"must lie in \(0, 1\], got 2.0"),
        ("arm_count=2.5", "arm_count", "arm_count must be a whole number, got 2.5"),
        ("arm_count=0", "arm_count", "arm_count must be at least 1"),
        (3, "columns", "columns must be a string"),
    ],
)
def test_wrong_columns_on_a_command_line_are_explained(text, field, message):
    with blames(field, message):
        parse_columns(text)


def test_files_of_a_directory_that_lack_a_column_are_named(tmp_path):
    pq.write_table(pa.table({"arm": [1], "probability": [0.5], "reward": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"arm": [1], "probability": [0.5]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet .*no column 'reward', which the log's first file has"):
        DecisionLog.open(tmp_path).table()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="is empty: it holds no decisions"):
        DecisionLog.open(tmp_path / "empty")


def test_files_of_a_directory_may_differ_in_their_types(tmp_path):
    for name, reward in (
        ("a", pa.array([1, 0])),
        ("b", pa.array([0.5, None])),
        ("c", pa.array([True, None])),
    ):
        pq.write_table(pa.table({"arm": [1, 0], "reward": reward}), tmp_path / f"{name}.parquet")
    log = DecisionLog.open(tmp_path, {"probability": 0.5})
    assert log.table()["reward"].to_pylist() == [1.0, 0.0, 0.5, None, 1.0, None]


def test_a_log_of_ones_own_is_read_as_it_is(forms):
    assert type(forms["directory"].source).__name__ == "ParquetSource"
    assert type(forms["file"].source).__name__ == "ParquetSource"


@pytest.mark.parametrize("name", ["probabilities", "features", "arms"])
def test_a_column_without_any_value_stays_without(tmp_path, name):
    table = pa.table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], name: pa.nulls(2)})
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text(f"arm,probability,reward,{name}\n0,0.5,1,\n1,0.5,0,\n")
    for log in (
        DecisionLog.from_table(table),
        DecisionLog.from_table({**table.to_pydict()}),
        DecisionLog.open(tmp_path / "log.parquet"),
        DecisionLog.from_csv(tmp_path / "log.csv"),
    ):
        assert log.table()[name].to_pylist() == [None, None]
        assert "arm_count" not in log.columns


@pytest.mark.parametrize("text", ["arm_count=1e400", "arm_count=1e999999999", "arm_count=1e20"])
def test_numbers_beyond_all_bounds_are_refused_by_name(text):
    with blames("arm_count", "arm_count must be"):
        parse_columns(text)
    with pytest.raises(ValueError, match="probability must be a finite number"):
        parse_columns(f"probability=1{'0' * 400}/3")
    with pytest.raises(ValueError, match="arm_count must be at most"):
        DecisionLog.from_table({"arm": [0], "probability": [1.0], "reward": [1]}, {"arm_count": 10**400})
    assert parse_columns("arm_count=nan,probability=inf") == {"arm_count": "nan", "probability": "inf"}
