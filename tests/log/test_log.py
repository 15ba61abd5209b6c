"""The decision log: durable, without duplicates, rewards late and in any order, bad rows named."""

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed import Agent, LinMED
from linmed.log import LogWriter, parquet, schema
from linmed.log import writer as writing
from linmed.ope import DecisionLog


def record(writer: LogWriter, number: int, **changes) -> None:
    p = np.array([0.25, 0.75])
    arms = np.array([[number, 0.0], [1.0, 2.0]])
    fields = {
        "arm": number % 2,
        "arm_count": 2,
        "log_probability": float(np.log(p[number % 2])),
        "log_probabilities": np.log(p),
        "features": arms[number % 2],
        "arms": arms,
        "policy": "LinMED-90",
        "version": number,
        "time": 1000.0 + number,
    }
    writer.record(number, **(fields | changes))


def test_every_field_comes_back(tmp_path):
    with LogWriter(tmp_path) as writer:
        record(writer, 3, arm_id="hat")
        writer.reward(3, 0.5, time=datetime(2024, 5, 1, tzinfo=UTC))
    (row,) = DecisionLog.open(tmp_path).table().to_pylist()
    assert row["probability"] == pytest.approx(0.75, abs=1e-15)
    expected = {
        "decision_id": "3",
        "time": datetime(1970, 1, 1, 0, 16, 43, tzinfo=UTC),
        "policy": "LinMED-90",
        "version": 3,
        "arm": 1,
        "arm_id": "hat",
        "arm_count": 2,
        "features": [1.0, 2.0],
        "arms": [[3.0, 0.0], [1.0, 2.0]],
        "reward": 0.5,
        "reward_time": datetime(2024, 5, 1, tzinfo=UTC),
    }
    assert {key: row[key] for key in expected} == expected
    assert row["probabilities"] == pytest.approx([0.25, 0.75], abs=1e-15)
    assert row["log_probability"] == np.log(0.75)


def test_rewards_join_by_id_late_out_of_order_and_after_reopening(tmp_path):
    order = np.random.default_rng(0).permutation(100)
    with LogWriter(tmp_path, flush_rows=7) as writer:
        for i in range(100):
            record(writer, i)
            if i % 3 == 0:
                writer.reward(i, float(i))
        for i in order[:50]:
            if i % 3:
                writer.reward(i, float(i))
    with LogWriter(tmp_path) as writer:
        for i in order[50:90]:
            if i % 3:
                writer.reward(i, float(i))
    given = set(range(0, 100, 3)) | set(order[:90].tolist())
    for rows in (100, 9):
        batches = list(DecisionLog.open(tmp_path).batches(rows=rows))
        assert all(batch.num_rows <= rows for batch in batches)
        table = pa.Table.from_batches(batches)
        assert table["decision_id"].to_pylist() == [str(i) for i in range(100)]
        assert table["reward"].to_pylist() == [float(i) if i in given else None for i in range(100)]
    waiting = [time is None for time in table["reward_time"].to_pylist()]
    assert waiting == [i not in given for i in range(100)]


def test_saving_puts_late_rewards_into_their_rows(tmp_path):
    with LogWriter(tmp_path / "log", flush_rows=2) as writer:
        for i in range(5):
            record(writer, i)
        for i in (4, 0, 2):
            writer.reward(i, float(i))
    saved = DecisionLog.open(tmp_path / "log").save(tmp_path / "one")
    assert sorted(os.listdir(tmp_path / "one")) == ["decisions-00000000000000000000-saved.parquet"]
    assert saved.table().equals(DecisionLog.open(tmp_path / "log").table())
    with pytest.raises(ValueError, match="not empty"):
        saved.save(tmp_path / "one")


def test_a_decision_is_logged_once_and_rewarded_once(tmp_path):
    writer = LogWriter(tmp_path, flush_rows=2)
    record(writer, 0)
    with pytest.raises(ValueError, match="decision_id '0' is already in the log"):
        record(writer, 0)
    writer.reward(0, 1.0)
    with pytest.raises(KeyError, match="already has its reward"):
        writer.reward(0, 1.0)
    with pytest.raises(KeyError, match="is not in the log"):
        writer.reward(9, 1.0)
    with pytest.raises(ValueError, match="reward must be finite"):
        writer.reward(0, float("nan"))
    with pytest.raises(ValueError, match="already in the log"):
        record(writer, 0)  # still in the buffer, but no longer waiting
    record(writer, 1)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        record(writer, 2)
    again = LogWriter(tmp_path)
    with pytest.raises(ValueError, match="already in the log"):
        record(again, 0)
    with pytest.raises(KeyError, match="already has its reward"):
        again.reward(0, 1.0)
    again.reward(1, 0.0)
    again.close()
    assert DecisionLog.open(tmp_path).table()["reward"].to_pylist() == [1.0, 0.0]


@pytest.mark.unix
def test_a_killed_process_leaves_a_readable_log_and_loses_only_what_was_not_flushed(tmp_path):
    """The child is killed between two flushes; a half-written file of the next one is lying about."""
    script = textwrap.dedent(
        """
        import os, signal, sys
        import numpy as np
        from linmed.log import LogWriter
        writer = LogWriter(sys.argv[1], flush_rows=10)
        for i in range(25):
            writer.record(i, arm=0, arm_count=2, log_probability=np.log(0.5))
            if i < 9:
                writer.reward(i, 1.0)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (tmp_path / ".decisions-99999999999999999999-dead.tmp").write_bytes(b"PAR1 half a file")
    identifiers = DecisionLog.open(tmp_path).table()["decision_id"].to_pylist()
    assert identifiers == [str(i) for i in range(20)]
    with LogWriter(tmp_path) as writer:
        for i in range(len(identifiers), 25):
            record(writer, i)
    assert DecisionLog.open(tmp_path).table()["decision_id"].to_pylist() == [str(i) for i in range(25)]


def test_a_process_that_ends_without_closing_still_writes_its_buffer(tmp_path):
    script = textwrap.dedent(
        """
        import sys
        from linmed.log import LogWriter
        writer = LogWriter(sys.argv[1])
        writer.record("a", arm=0, arm_count=2, log_probability=-1.0)
        """
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert DecisionLog.open(tmp_path).table()["decision_id"].to_pylist() == ["a"]


def test_old_rows_are_flushed_when_the_interval_has_passed(tmp_path):
    writer = LogWriter(tmp_path, flush_seconds=0.0)
    record(writer, 0)
    assert len(parquet.decision_files(tmp_path)) == 1
    writer.close()


def test_rows_are_flushed_by_their_bytes_however_few_they_are(tmp_path):
    """With 1,000 arms of 100 features, 8,192 rows would be 6.5 GB."""
    arms = np.random.default_rng(0).standard_normal((50, 20))
    weight = arms.nbytes + 2 * writing.ROW_BYTES
    with LogWriter(tmp_path, flush_bytes=3 * weight) as writer:
        for i in range(10):
            record(writer, i, arms=arms, arm_count=50, log_probabilities=None)
            assert writer._bytes <= 3 * weight
    rows = [pq.read_metadata(file).num_rows for file in parquet.decision_files(tmp_path)]
    assert rows == [3, 3, 3, 1]
    table = DecisionLog.open(tmp_path).table()
    assert table["decision_id"].to_pylist() == [str(i) for i in range(10)]
    assert table["arms"][9].as_py() == arms.tolist()
    assert LogWriter(tmp_path).flush_bytes == 64 * 2**20


def test_a_file_of_lists_stays_within_what_its_offsets_can_number(tmp_path, monkeypatch):
    """The limit is 2³¹ numbers; here it is 300."""
    for module in (schema, writing):
        monkeypatch.setattr(module, "MOST_NUMBERS", 300)
    arms = np.ones((10, 5))
    with LogWriter(tmp_path, flush_bytes=2**60) as writer:
        for i in range(5):
            record(writer, i, arms=arms, arm_count=10, log_probabilities=None)
        with pytest.raises(ValueError, match="too large for a log: leave out its arms"):
            record(writer, 5, arms=np.ones((400, 5)), arm_count=400, log_probabilities=None)
    assert DecisionLog.open(tmp_path).table()["decision_id"].to_pylist() == [str(i) for i in range(5)]
    with pytest.raises(ValueError, match="at most 300 numbers, got 350"):
        schema.ragged([arms] * 7, nested=True)
    matrices = np.arange(350.0).reshape(7, 10, 5)
    column = schema.lists(matrices)
    assert [len(chunk) for chunk in column.chunks] == [6, 1]
    assert column.to_pylist() == matrices.tolist()
    assert schema.lists(np.empty((2, 0))).to_pylist() == [[], []]


def test_batches_of_wide_rows_are_shorter(tmp_path, monkeypatch):
    with LogWriter(tmp_path / "log") as writer:
        for i in range(20):
            record(writer, i)
            writer.reward(i, float(i))
    log = DecisionLog.open(tmp_path / "log").save(tmp_path / "saved")
    monkeypatch.setattr(parquet, "AT_ONCE", 16)  # numbers; each row has four among its arms, two features
    assert {batch.num_rows for batch in log.batches(["reward", "arms"])} == {4}
    assert {batch.num_rows for batch in log.batches(["reward", "features"])} == {8, 4}
    assert log.table(["reward", "arms"])["reward"].to_pylist() == [float(i) for i in range(20)]


def test_what_could_not_be_written_may_be_recorded_again(tmp_path, monkeypatch):
    writer = LogWriter(tmp_path, flush_rows=2)
    record(writer, 0)

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_atomically", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="disk full"):
                record(writer, 1)
    record(writer, 1)
    writer.flush_rows = 1
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_atomically", fail)
        with pytest.raises(OSError, match="disk full"):
            writer.reward(0, 1.0)  # late
        with pytest.raises(OSError, match="disk full"):
            record(writer, 2)
    writer.flush_rows = 99
    record(writer, 2)
    writer.flush_rows = 1
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_atomically", fail)
        with pytest.raises(OSError, match="disk full"):
            writer.reward(2, 1.0)  # still in the buffer
    for i in (0, 2):
        writer.reward(i, i + 1.0)
    writer.close()
    table = DecisionLog.open(tmp_path).table()
    assert table["decision_id"].to_pylist() == ["0", "1", "2"]
    assert table["reward"].to_pylist() == [1.0, None, 3.0]


def test_threads_share_a_writer(tmp_path):
    with LogWriter(tmp_path, flush_rows=7) as writer, ThreadPoolExecutor(8) as pool:

        def work(thread):
            for i in range(thread, 200, 8):
                record(writer, i)
                writer.reward(i, float(i))

        list(pool.map(work, range(8)))
    table = DecisionLog.open(tmp_path).table()
    rewards = dict(zip(table["decision_id"].to_pylist(), table["reward"].to_pylist(), strict=True))
    assert rewards == {str(i): float(i) for i in range(200)}


def test_paths_that_are_no_log_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no log at"):
        DecisionLog.open(tmp_path / "none")
    with pytest.raises(ValueError, match="is empty"):
        DecisionLog.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a directory"):
        LogWriter(tmp_path / "file")
    pq.write_table(pa.table({"arm": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="has no probability, reward"):
        DecisionLog.open(tmp_path / "x.parquet")


def test_a_log_stays_where_it_is_when_the_program_goes_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    agent = Agent(LinMED(), dim=1, seed=1, log="log")
    monkeypatch.chdir(tmp_path / "there")
    agent.decide([[1.0], [0.5]])
    agent.close()
    assert DecisionLog.open(tmp_path / "log").table().num_rows == 1
    assert not list((tmp_path / "there").iterdir())
