"""Decisions that stand in a log twice: found in bounded memory, trusted where a writer vouches for them."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.log import DecisionLog, Duplicates, LogWriter, Repeated, views
from tests.log.conftest import FORMS


def table(identifiers: list[str | None]) -> pa.Table:
    n = len(identifiers)
    columns = {"decision_id": pa.array(identifiers, pa.string()), "arm": [0] * n, "reward": [1.0] * n}
    return pa.table(columns | {"probability": [0.5] * n, "row": list(range(n))})


def searched(identifiers: list[str | None], batch: int) -> Repeated | None:
    search = Duplicates()
    for start in range(0, len(identifiers), batch):
        search.add(pa.array(identifiers[start : start + batch], pa.string()))
    return search.found()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.sampled_from("abcdefgh")), st.integers(1, 9))
def test_duplicates_are_found_exactly_while_all_fit_into_memory(identifiers, batch):
    seen: dict[str, int] = {}
    again = []
    for row, identifier in enumerate(identifiers):
        if identifier is not None and seen.setdefault(identifier, row) != row:
            again.append(row)
    expected = None
    if again:
        identifier = identifiers[again[0]]
        expected = Repeated(len(again), again[0], seen[identifier], identifier)
    assert searched(identifiers, batch) == expected


def test_beyond_that_a_share_of_the_identifiers_is_compared_exactly(monkeypatch):
    """A quarter of 20,000 identifiers comes again; whichever rows come together, the same are found."""
    monkeypatch.setattr(views, "KEPT", 1 << 10)
    identifiers: list[str | None] = [f"decision {i}" for i in range(20_000)]
    identifiers += [None, None, *identifiers[::4]]
    found = searched(identifiers, 777)
    assert found == searched(identifiers, 20_000) == searched(identifiers, 10_001)
    assert found is not None
    assert found.compared == 2.0**-5
    assert abs(found.count / found.compared - 5_000) < 5 * (5_000 / found.compared) ** 0.5
    assert identifiers[found.row] == identifiers[found.first] == found.decision_id
    assert found.row >= 20_002
    search = Duplicates()
    for start in range(0, 100_000, 500):
        search.add(pa.array([str(i) for i in range(start, start + 500)]))
        assert len(search._kept) <= 1 << 10
    assert search.found() is None


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_log_invents_duplicates(forms, form):
    assert forms[form].duplicates() is None
    assert forms[form].split(0.5)[0].where(arm=[0, 1])[2:].duplicates() is None


def test_a_table_is_searched_once_and_remembered(monkeypatch):
    log = DecisionLog.from_table(table(["a", "b", None, "a", None, "b", "a"]))
    assert log.duplicates() == Repeated(3, 3, 0, "a")
    monkeypatch.setattr(views, "Duplicates", None)
    assert log.duplicates() == Repeated(3, 3, 0, "a")
    assert DecisionLog.from_table(table(["a"]).drop_columns("decision_id")).duplicates() is None


def test_parts_of_a_log_have_the_duplicates_that_are_in_them():
    log = DecisionLog.from_table(table(["a", "b", "a", "c", "c"]))
    assert log[:2].duplicates() is None
    assert log[2:].duplicates() == Repeated(1, 2, 1, "c")
    assert log.where(row=[0, 3, 4]).duplicates() == Repeated(1, 2, 1, "c")


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_distinct_keeps_the_first_of_each(batch):
    log = DecisionLog.from_table(table(["a", None, "b", "a", None, "b", "c"])).distinct()
    kept = [row for part in log.batches(["row"], batch) for row in part["row"].to_pylist()]
    assert kept == [0, 1, 2, 4, 6]
    assert len(log) == 5
    assert log.duplicates() is None
    assert log[1:3].distinct().where(row=2).table()["decision_id"].to_pylist() == ["b"]


def recorded(place, identifiers, rows: int = 4) -> None:
    with LogWriter(place, flush_rows=rows) as writer:
        for identifier in identifiers:
            writer.record(identifier, arm=0, arm_count=2, log_probability=-1.0)


def test_a_writers_directory_is_trusted_but_for_files_that_were_copied_in(tmp_path, monkeypatch):
    recorded(tmp_path / "log", range(12))
    log = DecisionLog.open(tmp_path / "log")
    with monkeypatch.context() as patch:
        patch.setattr(views, "Duplicates", None)  # nobody searches
        assert log.duplicates() is None
        assert log[3:].where(arm=0).duplicates() is None
    second = sorted((tmp_path / "log").iterdir())[1]
    shutil.copy(second, tmp_path / "log" / "decisions-99999999999999999999-00000000.parquet")
    again = DecisionLog.open(tmp_path / "log")
    assert again.duplicates() == Repeated(4, 12, 4, "4")
    assert again.distinct().table()["decision_id"].to_pylist() == [str(i) for i in range(12)]
    assert again[:12].duplicates() is None
    assert again[10:].duplicates() is None


def test_another_logs_files_in_a_directory_are_found(tmp_path):
    """Two programs number their decisions from zero, and flush at different rows."""
    recorded(tmp_path / "log", range(12))
    recorded(tmp_path / "other", range(10), rows=7)
    for file in (tmp_path / "other").iterdir():
        shutil.copy(file, tmp_path / "log")
    found = DecisionLog.open(tmp_path / "log").duplicates()
    assert found is not None
    assert (found.count, found.row, found.decision_id) == (10, 12, "0")


def test_saved_and_foreign_files_are_searched(tmp_path):
    doubled = table(["a", "b", "b"])
    saved = DecisionLog.from_table(doubled).save(tmp_path / "saved")
    assert saved.duplicates() == Repeated(1, 2, 1, "b")
    pq.write_table(doubled.rename_columns(["id", *doubled.column_names[1:]]), tmp_path / "file.parquet")
    log = DecisionLog.open(tmp_path / "file.parquet", {"decision_id": "id"})
    assert log.duplicates() == Repeated(1, 2, 1, "b")
    (tmp_path / "log.csv").write_text("decision_id,arm,probability,reward\n7,0,0.5,1\n8,0,0.5,1\n7,0,0.5,1\n")
    assert DecisionLog.from_csv(tmp_path / "log.csv").duplicates() == Repeated(1, 2, 0, "7")
