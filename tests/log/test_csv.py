"""Any CSV as a log: read in blocks, lines that cannot be read named or counted."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest

from linmed.log import DecisionLog
from tests.blame import blames


def csv(place, text: str, columns: dict | None = None, **options) -> DecisionLog:
    (place / "log.csv").write_text(text)
    return DecisionLog.from_csv(place / "log.csv", columns, **options)


HEAD = "arm,probability,reward,note\n"


def test_lines_that_cannot_be_read_abort_or_are_counted(tmp_path):
    lines = [
        "0,0.5,1,a\n",
        "0,0.5\n",
        "1,half,1,b\n",
        "1,0.5,,c\n",
        "1,0.5,x,d\n",
        "2,0.5,0,e,f\n",
        "2,0.5,0,g\n",
    ]
    with pytest.raises(ValueError, match=r"log\.csv, line 3: 2 fields, 4 expected"):
        csv(tmp_path, HEAD + "".join(lines)).table()
    log = csv(tmp_path, HEAD + "".join(lines), errors="skip")
    assert log.table()["note"].to_pylist() == ["a", "c", "g"]
    assert log.table()["reward"].to_pylist() == [1.0, None, 0.0]
    assert sorted(line for line, _ in log.malformed.first) == [3, 4, 6, 7]
    assert log.malformed.count == 4
    for columns in (["arm"], ["note"], ["probability", "reward"]):  # the same rows, whatever is read
        assert log.table(columns).num_rows == 3
    with pytest.raises(ValueError, match="line 4: column 'probability'"):
        csv(tmp_path, HEAD + "".join([lines[0], lines[0], lines[2]])).table()


def test_the_last_line_may_be_the_short_one(tmp_path):
    with pytest.raises(ValueError, match="line 3: 2 fields, 4 expected"):
        csv(tmp_path, HEAD + "0,0.5,1,a\n0,0.5\n").table()
    assert csv(tmp_path, HEAD + "0,0.5,1,a\n0,0.5\n", errors="skip").malformed.count == 1


def test_a_column_of_others_that_changes_its_type_is_refused_or_null(tmp_path, monkeypatch):
    monkeypatch.setattr("linmed.log.importers.BLOCK", 1 << 10)
    text = HEAD + "0,0.5,1,7\n" * 500 + "0,0.5,1,seven\n" + "0,0.5,1,7\n" * 500
    with pytest.raises(
        ValueError, match=r"line 502: column 'note' cannot be read as note \(int64\).*'seven'"
    ):
        csv(tmp_path, text).table()
    assert csv(tmp_path, text).table(["arm"]).num_rows == 1001
    log = csv(tmp_path, text, errors="skip")
    assert log.table()["note"].to_pylist() == [7] * 500 + [None] + [7] * 500
    assert log.malformed.count == 0


def test_names_of_lines_that_are_skipped_are_no_arms(tmp_path):
    log = csv(tmp_path, "arm,probability,reward\na,0.5,1\ngarbage,x,1\nb,0.5,0\n", errors="skip")
    assert log.table().to_pydict()["arm_count"] == [2, 2]
    assert log.table()["arm"].to_pylist() == [0, 1]


def test_other_delimiters_quotes_and_compressed_files_are_read(tmp_path):
    text = 'arm;probability;reward;note\n0;0.5; 1;"two\nlines; one field"\n1;0.5;true;\n'
    log = csv(tmp_path, text, delimiter=";")
    assert log.table()["reward"].to_pylist() == [1.0, 1.0]
    assert log.table()["note"].to_pylist() == ["two\nlines; one field", None]
    with gzip.open(tmp_path / "log.csv.gz", "wt") as file:
        file.write("arm,probability,reward\n1,0.5,0\n")
    assert DecisionLog.from_csv(tmp_path / "log.csv.gz").table()["arm"].to_pylist() == [1]


def test_what_is_no_csv_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no log"):
        DecisionLog.from_csv(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"log\.csv cannot be read as CSV: .*[Ee]mpty"):
        csv(tmp_path, "")
    (tmp_path / "latin.csv").write_bytes(HEAD.encode() + b"0,0.5,1,a\n" * 10 + b"0,0.5,1,caf\xe9\n")
    with pytest.raises(ValueError, match=r"latin\.csv cannot be read as CSV: .*UTF8"):
        DecisionLog.from_csv(tmp_path / "latin.csv").table()
    with pytest.raises(ValueError, match="is empty: it holds no decisions"):
        csv(tmp_path, "arm,probability,reward\n").table()
    with pytest.raises(ValueError, match=r"which .* has twice"):
        csv(tmp_path, "arm,arm,probability,reward\n0,1,0.5,1\n")
    for name, value in (("errors", "hope"), ("delimiter", ""), ("delimiter", ";;"), ("delimiter", 3)):
        with blames(name, f"{name} must be"):
            csv(tmp_path, HEAD + "0,0.5,1,a\n", **{name: value})


def test_a_csv_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("linmed.log.importers.BLOCK", 1 << 12)
    rng = np.random.default_rng(0)
    data = {"arm": rng.integers(0, 5, 5000), "probability": np.full(5000, 0.2), "reward": rng.random(5000)}
    pv.write_csv(pa.table(data), tmp_path / "log.csv")
    log = DecisionLog.from_csv(tmp_path / "log.csv")
    assert len(list(log.batches())) > 10
    assert log.table().to_pydict() == {name: values.tolist() for name, values in data.items()}
    assert log[2000:3000].table()["arm"].to_pylist() == data["arm"][2000:3000].tolist()


def test_a_reader_that_is_left_early_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("linmed.log.importers.BLOCK", 1 << 12)
    closed = []
    opened = pv.open_csv

    class Watched:
        def __init__(self, reader):
            self.reader = reader

        def __enter__(self):
            return self.reader

        def __exit__(self, *_):
            self.reader.close()
            closed.append(True)

    monkeypatch.setattr("linmed.log.importers.pv.open_csv", lambda *args: Watched(opened(*args)))
    lines = HEAD + "0,0.5,1,a\n" * 2000
    log = csv(tmp_path, lines + "0,half,1,a\n" * 2000)
    assert closed == []  # names and types are found without one
    batches = log.batches()
    next(batches)
    batches.close()
    assert closed == [True]
    with pytest.raises(ValueError, match="line 2002: column 'probability'") as held:
        log.table()
    assert closed == [True, True], held


def test_types_are_those_of_whole_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("linmed.log.importers.BLOCK", 64)
    log = csv(tmp_path, "arm,probability,reward,seen\n" + "0,0.5,1,true\n" * 50)
    assert log.table()["seen"].to_pylist() == [True] * 50
    assert csv(tmp_path, "arm,probability,reward\n0,0.5,1").table().num_rows == 1


def test_messages_tell_of_the_file_as_it_is(tmp_path):
    with pytest.raises(ValueError, match=r"has no probability, reward \(it has 'my item', 'click'\)"):
        csv(tmp_path, "my item,click\n0,1\n", {"arm": "my item"})
    with pytest.raises(ValueError, match=r"has no probability, reward \(it has 'my item', 'click'\)"):
        DecisionLog.from_table({"my item": [0], "click": [1]}, {"arm": "my item"})
    log = csv(tmp_path, "my item,click\n0,1\n", {"arm": "my item", "reward": "click", "probability": 1})
    with pytest.raises(ValueError, match=r"made of 'my item', 'click'"):
        log.table(["features"])
    with pytest.raises(ValueError, match=r"maps 'arm' to 'item', but .* has the columns 'my item', 'click'"):
        csv(tmp_path, "my item,click\n0,1\n", {"arm": "item"})
    with pytest.raises(ValueError, match="only a line of names"):
        csv(tmp_path, "arm,probability,reward\n")
    with pytest.raises(ValueError, match=r"has one column, 'arm;probability': its delimiter seems to be ';'"):
        csv(tmp_path, "arm;probability\n0;1\n")
    for line in ("arm,probability,reward,caf\xe9\n0,1,1,1\n", "arm,probability,reward,a\n0,1,1,caf\xe9\n"):
        (tmp_path / "latin.csv").write_bytes(line.encode("latin-1"))
        with pytest.raises(ValueError, match=r"latin\.csv cannot be read as CSV: .*UTF-8 is expected"):
            DecisionLog.from_csv(tmp_path / "latin.csv").table()


def test_a_directory_without_decisions_says_what_it_holds(tmp_path):
    with pytest.raises(ValueError, match="that has not flushed yet"):
        DecisionLog.open(tmp_path)
    for name in "ba":
        (tmp_path / f"{name}.csv").write_text("arm\n")
    with pytest.raises(ValueError, match=r"holds no Parquet files, but a\.csv, b\.csv: "):
        DecisionLog.open(tmp_path)
