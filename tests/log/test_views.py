"""Slices, splits and filters of a log: the rows of the whole table, whatever it is read from and how."""

from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.log import DecisionLog
from linmed.log.source import Malformed, Slice, Source, TableSource
from linmed.ope import compare, evaluate
from tests.blame import blames
from tests.log.conftest import FORMS, ROWS, SOURCES

START = datetime.fromtimestamp(1e9, UTC)
BATCHES = (5, 64)


def rows(log: DecisionLog, batch: int = 7, columns: list[str] | None = None) -> list[dict]:
    """All rows, in batches that are small enough."""
    found = []
    for part in log.batches(columns, batch):
        assert 0 < part.num_rows <= batch
        found += part.to_pylist()
    return found


def version_above(batch: pa.RecordBatch, limit: int = 20) -> pa.Array:
    return pc.greater(batch.column("version"), limit)


def views_of(log: DecisionLog) -> dict[str, DecisionLog]:
    """One of each kind, and some of several."""
    early, late = log.split(0.4)
    views = {
        "slice": log[5:40],
        "tail": log[-9:],
        "slice of a slice": log[5:40][3:-3],
        "nothing": log[7:7],
        "first": early,
        "second": late,
        "where": log.where(arm=[0, 2]),
        "where of a slice": log[10:50].where(arm=1, reward=None),
        "split of a filter": log.where(arm=[0, 1]).split(0.5)[1],
        "filter of a split": early.where(arm=0)[1:4],
    }
    if "version" in log.columns:
        views["function"] = log.where(version_above, columns=["version"])
    if "time" in log.columns:
        views["after"] = log.after(1e9 + 10).before(START + timedelta(seconds=33))
    if "decision_id" in log.columns:
        views["distinct"] = log.distinct()
    return views


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_decisions(forms, form):
    log = forms[form]
    assert len(log) == ROWS
    mine, theirs = rows(log, columns=["arm", "probability"]), rows(forms["table"])
    assert [row["arm"] for row in mine] == [row["arm"] for row in theirs]
    np.testing.assert_allclose(
        [row["probability"] for row in mine], [row["probability"] for row in theirs], rtol=1e-12
    )


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None)
@given(
    start=st.none() | st.integers(-70, 70),
    stop=st.none() | st.integers(-70, 70),
    again=st.tuples(st.integers(-20, 20), st.none() | st.integers(-20, 20)),
    batch=st.integers(1, 70),
)
def test_a_slice_is_that_of_the_table(forms, form, start, stop, again, batch):
    log = forms[form]
    whole = rows(log, ROWS)
    assert rows(log[start:stop], batch) == whole[start:stop]
    part = log[start:stop][again[0] : again[1]]
    assert rows(part, batch) == whole[start:stop][again[0] : again[1]]
    assert len(part) == len(whole[start:stop][again[0] : again[1]])


@pytest.mark.parametrize("form", [form for form in FORMS if form != "vw"])
def test_times_split_a_log_in_two(forms, form):
    log = forms[form]
    whole = rows(log)
    for time in (START + timedelta(seconds=20), 1e9 + 20, (START + timedelta(seconds=20)).isoformat()):
        assert rows(log.before(time)) == whole[:20]
        assert rows(log.after(time)) == whole[20:]
    assert rows(log.after(1e9 + 10).before(1e9 + 12)) == whole[10:12]
    assert rows(log.after(1e9 + 3).before(1e9 + 3)) == []


def test_a_decision_without_a_time_is_on_no_side():
    columns = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "time": [None, 5.0]}
    log = DecisionLog.from_table(columns)
    assert (len(log.before(7)), len(log.after(7)), len(log.before(1))) == (1, 0, 0)


@pytest.mark.parametrize("form", SOURCES)
@pytest.mark.parametrize("batch", BATCHES)
def test_filters_are_those_of_the_table(forms, form, batch):
    log = forms[form]
    whole = rows(log)

    def same(part: DecisionLog, keep) -> None:
        assert rows(part, batch) == [row for row in whole if keep(row)]
        assert len(part) == sum(map(keep, whole))
        some = rows(part, batch, ["reward", "probability"])
        assert some == [{name: row[name] for name in ("reward", "probability")} for row in whole if keep(row)]

    same(log.where(arm=1), lambda row: row["arm"] == 1)
    same(log.where(arm="1"), lambda row: row["arm"] == 1)
    same(log.where(arm=(0, 2), reward=1.0), lambda row: row["arm"] != 1 and row["reward"] == 1)
    same(log.where(arm=np.array([0, 2])), lambda row: row["arm"] != 1)
    same(log.where(reward=None), lambda row: row["reward"] is None)
    same(log.where(reward=[None, 0]), lambda row: row["reward"] in (None, 0))
    same(log.where(arm=9), lambda row: False)
    same(log.where(lambda batch: batch.column("reward").is_valid()), lambda row: row["reward"] is not None)
    same(
        log.where(lambda batch: batch.column("arm").to_numpy() > 0, columns=["arm"]),
        lambda row: row["arm"] > 0,
    )


@pytest.mark.parametrize("form", SOURCES)
def test_views_read_the_same_in_any_batch_and_in_pieces(forms, form):
    for name, view in views_of(forms[form]).items():
        whole = rows(view, ROWS)
        for batch in BATCHES:
            assert rows(view, batch) == whole, name
        assert len(view) == len(whole), name
        assert [row for piece in view.pieces() for row in rows(piece)] == whole, name


class Live(TableSource):
    """A log that is still written: its last row is at 90 s, and now it is 1000 s."""

    def ended(self):
        return 1_000_000_000

    def slice(self, start, stop):
        return Slice(self, start, stop)


@pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
def test_parts_of_a_log_that_is_still_written_are_as_old_as_it_is():
    columns = {"arm": [0] * 10, "probability": [1.0] * 10, "decision_id": [*"abcdefghij"]}
    time = pa.array(range(0, 100_000_000, 10_000_000), pa.timestamp("us", tz="UTC"))
    log = DecisionLog(Live(pa.table(columns | {"reward": [0.5, None] * 5, "time": time})), "live")
    for part, young, old in (
        (log[1:8], 7, 2),
        (log.where(arm=0), 10, 3),
        (log.distinct(), 10, 3),
        (log.before(50.0), 5, 3),
    ):
        for mature, judged in ((900, young), (980, old)):
            found = evaluate(part, 0, "ipw", missing=0.0, mature=mature)
            assert found["n"].to_pylist() == [judged]
    groups = ["a", "b"] * 5
    log = DecisionLog(Live(log.source.table.append_column("group", [groups])), "live")
    assert compare(log, "group", missing=0.0, mature=980)["n"].to_pylist() == [3, 3, 3]


def test_a_directory_stays_in_pieces_where_it_is_cut_or_filtered(forms):
    log = forms["directory"]
    assert len(log.pieces()) == 9
    assert len(log[10:30].pieces()) == 4
    assert len(log.where(arm=1).pieces()) == 9
    assert len(log[10:30].where(arm=1).pieces()) == 4
    assert len(forms["foreign"][30:].pieces()) == 3
    assert forms["csv"].pieces() == [forms["csv"]]


@pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
def test_parts_of_a_directory_are_evaluated_by_workers_to_the_same_numbers(forms):
    for view in (forms["directory"][11:50], forms["foreign"].where(reward=[0, 1])):
        ask = {"targets": "uniform", "estimators": "ipw", "interval": "none", "missing": "skip"}
        alone = evaluate(view, **ask)
        with ProcessPoolExecutor(2) as executor:
            spread = evaluate(view, **ask, executor=executor)
        for name in ("estimate", "n", "effective_n"):
            assert spread[name].to_pylist() == pytest.approx(alone[name].to_pylist(), rel=1e-12)


class Reading(Source):
    """A source that notes how much was asked of it."""

    columns = ("arm", "probability", "reward")

    def __init__(self) -> None:
        self.rows = 0
        self.asked: list[str] = []

    def read(self, columns, rows, malformed: Malformed):
        self.asked = list(columns)
        for start in range(0, 1000, rows):
            self.rows += rows
            zeros = np.arange(start, start + rows) % 2
            yield pa.RecordBatch.from_pydict(dict.fromkeys(columns, zeros))


def test_a_view_reads_no_more_than_it_needs():
    source = Reading()
    log = DecisionLog(source)
    assert log
    assert source.rows == 0
    assert len(rows(log[:30], 10)) == 30
    assert source.rows == 30
    log[3:5].table(["arm"])
    assert (source.rows, source.asked) == (35, ["arm"])
    len(log.where(reward=1))
    assert source.asked == ["arm", "reward"]
    before = source.rows
    assert len(log) == len(log) == 1000 + 65_536 - 1000
    assert source.rows == before + 65_536


def test_the_rows_before_a_slice_of_a_directory_are_not_read(forms, tmp_path):
    saved = forms["table"].save(tmp_path / "log")
    DecisionLog.open(tmp_path / "log")
    (file,) = (tmp_path / "log").iterdir()
    (tmp_path / "log" / "decisions-00000000000000000001-ffffffff.parquet").write_bytes(file.read_bytes())
    damaged = bytearray(file.read_bytes())
    footer = int.from_bytes(damaged[-8:-4], "little") + 8
    damaged[4:-footer] = bytes(len(damaged) - footer - 4)
    file.write_bytes(damaged)
    assert len(saved) == 2 * ROWS
    assert rows(saved[ROWS:]) == rows(forms["table"])
    with pytest.raises(ValueError, match="is damaged"):
        rows(saved[ROWS - 1 :])


@pytest.mark.parametrize(
    ("ask", "field", "message"),
    [
        (lambda log: log[3], "index", r"index must be a slice like log\[100:200\], got 3"),
        (lambda log: log[::2], "index", "step 1"),
        (lambda log: log[1.5:], "index", "index must be a whole number"),
        (lambda log: log.split(1.0), "fraction", "strictly between 0 and 1"),
        (lambda log: log.split("half"), "fraction", "fraction must be a number"),
        (lambda log: log.before("yesterday"), "time", "time must be a time like 2024-05-01"),
        (lambda log: log.after(None), "time", "time must be a time, got None"),
        (lambda log: log.after(1.7e12), "time", "time must be in the years 1 to 9999"),
        (lambda log: log.where(), "test", "test must be given"),
        (lambda log: log.where(3), "test", "test must be a function of a batch"),
        (lambda log: log.where(len, arm=3), "test", "filter twice"),
        (lambda log: log.where(nope=3), "nope", "'nope' is no column of the log, which has"),
        (lambda log: log.where(len, columns=["nope"]), "nope", "'nope' is no column of the log"),
        (lambda log: log.where(arm=3, columns=["arm"]), "columns", "columns are those that a function needs"),
        (lambda log: log.where(arm="x").table(), "arm", "arm holds int64, of which 'x' is none"),
        (lambda log: log.where(arm=[object()]).table(), "arm", "arm holds int64"),
        (lambda log: log.where(arms=3).table(), "arms", "arms holds list"),
        (lambda log: log.where(lambda batch: [True]).table(), "test", "61 rows with 61 booleans, got 1 of"),
        (lambda log: log.where(lambda batch: np.ones(61)).table(), "test", "got 61 of double"),
    ],
)
def test_what_is_no_part_of_a_log_is_explained(forms, ask, field, message):
    with blames(field, message):
        ask(forms["table"])
    assert len(forms["table"].table()) == ROWS


def test_parts_need_the_columns_they_go_by(forms):
    with pytest.raises(ValueError, match="a split by time needs the column 'time'"):
        forms["vw"].before(3)
    with pytest.raises(ValueError, match="telling decisions apart needs the column 'decision_id'"):
        forms["csv"].distinct()


def test_an_empty_part_says_so(forms):
    with pytest.raises(ValueError, match=r"directory\[5:5\] is empty: it holds no decisions"):
        forms["directory"][5:5].table()
    with pytest.raises(ValueError, match="where arm=7 is empty"):
        evaluate(forms["directory"].where(arm=7), "uniform", interval="none")


def test_malformed_lines_of_a_part_are_counted_as_far_as_it_was_read(tmp_path):
    (tmp_path / "log.csv").write_text(
        "arm,probability,reward\n" + "0,0.5,1\n" * 5 + "0,0.5,x\n" + "0,0.5,1\n" * 5
    )
    log = DecisionLog.from_csv(tmp_path / "log.csv", errors="skip")
    assert log[7:].malformed.count == 1
    assert log.where(arm=0).malformed.first[0][0] == 7
    assert len(log) == len(log.table(["arm"])) == 10
