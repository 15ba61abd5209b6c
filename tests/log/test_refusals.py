"""What a log does not take: rows that could not be read again, second writers, files that are none."""

import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime

import numpy as np
import pytest

from linmed.log import LogWriter
from linmed.ope import DecisionLog, evaluate
from tests.blame import blames

HALF = float(np.log(0.5))


def record(writer: LogWriter, identifier: object = "a", **changes) -> None:
    fields = {
        "arm": 1,
        "arm_count": 2,
        "log_probability": HALF,
        "log_probabilities": np.array([HALF, HALF]),
        "features": np.array([1.0, 2.0]),
        "arms": np.array([[0.0, 1.0], [1.0, 2.0]]),
        "policy": "mine",
        "version": 3,
    }
    writer.record(identifier, **(fields | changes))


def rows(path) -> int:
    return DecisionLog.open(path).table().num_rows


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", 5),
        ("policy", "\ud800"),
        ("version", "x"),
        ("version", 1.5),
        ("version", True),
        ("version", 2**70),
        ("version", -(2**70)),
        ("time", 1e300),
        ("time", 1e308),
        ("time", 1.7e12),  # milliseconds
        ("time", "now"),
        ("arm_count", 2**70),
        ("arm_count", 2.7),
        ("arm_count", 0),
        ("arm_count", None),
        ("arm", 1.9),
        ("arm", 2),
        ("arm", -1),
        ("arm", None),
        ("arm", True),
        ("arm", 2**70),
        ("arm_id", "\ud800"),
        ("log_probability", "x"),
        ("log_probability", 0.1),
        ("log_probability", float("-inf")),
        ("log_probability", None),
        ("log_probability", float("nan")),
        ("log_probability", float(np.log(0.6))),  # log_probabilities says 0.5
        ("log_probabilities", np.log([0.5, 0.25, 0.25])),
        ("log_probabilities", np.log([0.5, 0.4])),
        ("log_probabilities", [HALF, float("nan")]),
        ("log_probabilities", [HALF, 1000.0]),
        ("log_probabilities", np.ma.masked_array([HALF, HALF], [True, False])),
        ("log_probabilities", ["-0.69", "-0.69"]),
        ("log_probabilities", np.log([[0.5, 0.5]])),
        ("features", [1.0, float("nan")]),
        ("features", [1.0, float("inf")]),
        ("features", "words"),
        ("features", np.ones((1, 3))),
        ("time", float("nan")),
        ("arms", np.ones((3, 2))),
        ("arms", np.ones(3)),
        ("arms", np.ones((2, 0))),
        ("arms", np.array([[1.0, 2.0], [np.nan, 0.0]])),
        ("arms", np.array([[1.0, 2.0], [1e200, 0.0]])),
        ("arms", np.ma.masked_array(np.ones((2, 2)), [[False, True], [False, False]])),
        ("arms", [[1.0, 2.0], [3.0]]),
    ],
)
def test_a_row_that_could_not_be_written_or_read_is_refused_by_its_field(tmp_path, field, value):
    """One such row in the buffer would make every later flush fail."""
    with LogWriter(tmp_path) as writer:
        record(writer, "before")
        with blames(field, field):
            record(writer, "bad", **{field: value})
        record(writer, "after")
    assert DecisionLog.open(tmp_path).table()["decision_id"].to_pylist() == ["before", "after"]


def test_a_probability_above_one_is_refused_also_where_no_law_contradicts_it(tmp_path):
    with LogWriter(tmp_path) as writer, blames("log_probability", "finite and at most 0, got 0.1"):
        record(writer, log_probability=0.1, log_probabilities=None)


def test_rows_of_other_number_types_and_rules_that_exclude_arms_are_taken(tmp_path):
    late = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    with LogWriter(tmp_path) as writer:
        record(
            writer,
            7,
            arm=np.int32(0),
            arm_count=np.uint8(3),
            log_probability=np.float32(0.0),
            log_probabilities=[0, -np.inf, -np.inf],
            features=[1, 2],
            arms=np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2)),
            version=np.int64(4),
            arm_id=12,
            time=late,
        )
        record(writer, 8, log_probabilities=np.log([0.5004, 0.5]), features=np.array([1e60, 2.0]))
    first, second = DecisionLog.open(tmp_path).table().to_pylist()
    assert (first["arm"], first["arm_count"], first["version"], first["arm_id"]) == (0, 3, 4, "12")
    assert first["probabilities"] == [1.0, 0.0, 0.0]
    assert first["arms"] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert first["time"] == late
    assert second["features"] == [1e60, 2.0]


def test_what_the_caller_changes_later_does_not_change_the_log(tmp_path):
    arms = np.array([[0.0, 1.0], [1.0, 2.0]])
    with LogWriter(tmp_path) as writer:
        record(writer, arms=arms, features=arms[1])
        arms[:] = 9.0
    (row,) = DecisionLog.open(tmp_path).table().to_pylist()
    assert (row["features"], row["arms"]) == ([1.0, 2.0], [[0.0, 1.0], [1.0, 2.0]])


@pytest.mark.unix
def test_a_log_has_one_writer_at_a_time(tmp_path):
    first = LogWriter(tmp_path / "log")
    record(first)
    (tmp_path / "other").symlink_to(tmp_path / "log")
    for path in ("log", "other"):
        with pytest.raises(ValueError, match=rf"the log at .*{path} has a writer already.*close that one"):
            LogWriter(tmp_path / path)
    first.flush()
    assert rows(tmp_path / "log") == 1  # readers do not ask
    first.close()
    with LogWriter(tmp_path / "log") as second:
        first.close()  # again, and not its lock any more
        with pytest.raises(ValueError, match="has a writer already"):
            LogWriter(tmp_path / "log")
        record(second, "b")
    assert rows(tmp_path / "log") == 2
    del second
    forgotten = LogWriter(tmp_path / "log")
    record(forgotten, "c")
    del forgotten
    with LogWriter(tmp_path / "log"):
        assert rows(tmp_path / "log") == 3


def test_a_writer_that_could_not_continue_a_log_does_not_keep_it(tmp_path):
    odd = tmp_path / "decisions-foo.parquet"
    odd.write_bytes(b"")
    with pytest.raises(ValueError, match=r"decisions-foo\.parquet") as refusal:
        LogWriter(tmp_path)
    odd.unlink()
    LogWriter(tmp_path).close()
    assert refusal.value.__traceback__ is not None  # what holds the frame, and the writer in it, alive


@pytest.mark.unix
def test_another_process_is_kept_out_until_the_first_is_killed(tmp_path):
    script = textwrap.dedent(
        """
        import sys
        from linmed.log import LogWriter
        writer = LogWriter(sys.argv[1])
        print("open", flush=True)
        sys.stdin.read()
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(ValueError, match="has a writer already"):
            LogWriter(tmp_path)
        child.send_signal(signal.SIGKILL)
        child.wait()
        LogWriter(tmp_path).close()


@pytest.mark.unix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_neither_writes_its_parents_log_nor_opens_it_to_others(tmp_path):
    writer = LogWriter(tmp_path)
    record(writer)
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            record(writer, "b")
        except ValueError as error:
            writer.close()
            outcome = 0 if "belongs to the process that opened it" in str(error) else 2
        os._exit(outcome)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="has a writer already"):
        LogWriter(tmp_path)
    writer.close()
    assert rows(tmp_path) == 1


def test_a_table_with_columns_of_different_length_is_refused():
    with pytest.raises(ValueError, match="arm has 2, probability has 2, reward has 1"):
        DecisionLog.from_table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0]})


def test_messages_show_the_beginning_and_the_end_of_what_is_long():
    rows = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]}
    wide = {f"c{i}": [1.0, 2.0] for i in range(320)}
    for made, columns, words in (
        (rows | {"features": [list(range(320)), ["x"] * 320]}, {}, "column 'features' cannot be read"),
        (rows | {"reward": [list(range(320))] * 2}, {}, r"it has \[0, 1, 2.* … .*318, 319\] \(320 entries\)"),
        (rows, {"probability": np.full(320, 0.5)}, r"got array\(\[0.5.* … .*\(320 entries\)$"),
        ({"arm": [0, 1], **wide}, {}, "no probability, reward .*'c18' and 301 more"),
        (rows, {"features": "f"}, "has the columns 'arm', 'probability', 'reward'$"),
    ):
        with pytest.raises(ValueError, match=words) as e:
            DecisionLog.from_table(made, columns)
        assert len(str(e.value)) < 350


def test_a_log_is_printed_with_its_size_and_columns(tmp_path):
    log = DecisionLog.from_table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]})
    assert str(log) == repr(log) == "DecisionLog 'table': 2 decisions, with arm, probability, reward"
    assert str(log[1:]) == "DecisionLog 'table[1:]': 1 decision, with arm, probability, reward"
    (tmp_path / "log.csv").write_text("arm,probability,reward\n0,0.5,1\n")
    text = DecisionLog.from_csv(tmp_path / "log.csv")
    assert "decisions that were not counted yet, with arm" in str(text)
    assert len(text) == 1
    assert "1 decision, with arm" in str(text)


def test_a_log_with_other_columns_is_not_continued(tmp_path):
    table = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]}
    DecisionLog.from_table(table).save(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"saved cannot be continued: .*differs in .*decision_id"):
        LogWriter(tmp_path / "saved")
    more = table | {"decision_id": ["a", "b"], "mine": [1, 2]}
    DecisionLog.from_table(more).save(tmp_path / "more")
    with pytest.raises(ValueError, match=r"more cannot be continued: .*differs in .*mine"):
        LogWriter(tmp_path / "more")
    with LogWriter(tmp_path / "log") as writer:
        record(writer)
    DecisionLog.open(tmp_path / "log").save(tmp_path / "again")
    with LogWriter(tmp_path / "again") as writer:
        record(writer, "b")
    assert rows(tmp_path / "again") == 2


def test_a_file_of_another_name_is_not_continued(tmp_path):
    with LogWriter(tmp_path) as writer:
        record(writer)
    (file,) = tmp_path.iterdir()
    file.rename(tmp_path / "decisions-foo.parquet")
    assert rows(tmp_path) == 1
    with pytest.raises(ValueError, match=r"decisions-foo.parquet is not named decisions-<20 digits>"):
        LogWriter(tmp_path)


@pytest.mark.parametrize("kind", ["decisions", "rewards"])
@pytest.mark.parametrize("damage", ["end", "middle"])
def test_a_damaged_file_is_named(tmp_path, kind, damage):
    with LogWriter(tmp_path) as writer:
        for i in range(200):
            record(writer, i, version=i)
        writer.flush()
        for i in range(200):
            writer.reward(i, float(i))
    log = DecisionLog.open(tmp_path)
    (file,) = tmp_path.glob(f"{kind}-*")
    content = bytearray(file.read_bytes())
    if damage == "end":
        del content[-20:]
    else:
        footer = int.from_bytes(content[-8:-4], "little") + 8
        content[4:-footer] = bytes(len(content) - footer - 4)
    file.write_bytes(content)
    ask = {"targets": "logged", "estimators": "ipw", "reward_range": (0, 200)}
    for call in (lambda: log.table(), lambda: evaluate(log, **ask), lambda: LogWriter(tmp_path)):
        with pytest.raises(ValueError, match=rf"{file.name} is damaged"):
            call()
