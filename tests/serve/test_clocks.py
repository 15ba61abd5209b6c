"""Clocks step back and differ between servers; time in a bandit's log does not go back."""

import io
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from linmed.serve import database as db
from linmed.serve import decisions, engine, live_log, reports, store
from linmed.serve.api import ROUTES
from linmed.serve.schemas import PREFIX

from .serving import application, create, decide, reward

HOUR = 3600 * 10**6


class Clock:
    """Stands in for `database.now` wherever it is used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.shift = 0
        for module in (db, store, decisions, engine, live_log, reports):
            monkeypatch.setattr(module, "now", self)

    def __call__(self) -> int:
        return real() + self.shift


real = db.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def times(url: str) -> list[int]:
    """The times of the log, in the order in which one client decided and rewarded by turns."""
    opened = db.Database(url)
    joined = db.decisions.outerjoin(db.rewards, db.rewards.c.decision == db.decisions.c.number)
    query = sa.select(db.decisions.c.time, db.rewards.c.time).select_from(joined)
    with opened.reader.begin() as connection:
        found = [one for row in connection.execute(query.order_by(db.decisions.c.number)) for one in row]
    opened.close()
    return [one for one in found if one is not None]


def every_report_answers(client: httpx.Client) -> dict[str, Any]:
    found = client.get("/v1/bandits/b/statistics")
    assert found.status_code == 200, found.text
    spans = found.json()["over_time"]
    assert sum(one["decisions"] for one in spans) == found.json()["decisions"]
    assert sum(one["rewards"] for one in spans) == found.json()["rewards"]
    assert [one["time"] for one in spans] == sorted(one["time"] for one in spans)
    for mature in (None, 0, 3600):
        body = {"targets": ["uniform"], "missing": 0, "mature": mature or 0}
        judged = client.post("/v1/bandits/b/evaluate", json=body)
        assert judged.status_code in (200, 422), judged.text
    assert client.post("/v1/bandits/b/trend", json={}).status_code == 200
    for route in [route for route in ROUTES if route.tag == "reports"]:
        if route.method == "GET":
            answered = client.get(PREFIX + route.path.replace("{name}", "b"))
            assert answered.status_code < 500, answered.text
    log = pq.read_table(io.BytesIO(client.get("/v1/bandits/b/log").content))
    taken = log["time"].cast("int64").to_numpy()
    assert (np.diff(taken) >= 0).all()
    came = log["reward_time"].cast("int64").fill_null(2**62).to_numpy()
    assert (came >= taken).all()
    answer: dict[str, Any] = found.json()
    return answer


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_time_in_the_log_does_not_go_back_with_the_clock(
    backend: str, request: pytest.FixtureRequest, clock: Clock
) -> None:
    url = request.getfixturevalue(backend)
    for shift in (0, -HOUR):  # the second time a server begins with a clock that is behind its log
        with application(url) as client:
            if shift == 0:
                create(client, reward_range=[0.0, 1.0])
            for step in (0, -1, 1, -HOUR, -2 * HOUR):
                clock.shift = shift + step
                reward(client, decide(client), 0.5)
            every_report_answers(client)
    found = times(url)
    assert len(found) == 20
    assert found == sorted(found)


@pytest.mark.parametrize("shift", [-(10**6), 500_000, 24 * HOUR, -(10**15)])
def test_statistics_answer_whatever_the_clock_says(sqlite: str, clock: Clock, shift: int) -> None:
    with application(sqlite) as client:
        create(client, reward_range=[0.0, 1.0])
        for _ in range(3):
            reward(client, decide(client), 0.5)
        clock.shift = shift
        every_report_answers(client)
        reward(client, decide(client), 0.5)
        clock.shift = 0
        every_report_answers(client)


def test_rows_from_the_future_and_out_of_order_are_read_in_order(sqlite: str) -> None:
    """As a release that did not order them, or two servers at the same moment, have written them."""
    with application(sqlite) as client:
        create(client, reward_range=[0.0, 1.0])
        for _ in range(4):
            reward(client, decide(client), 0.5)
        opened = db.Database(sqlite)
        with opened.writer.begin() as connection:
            first = connection.execute(sa.select(sa.func.min(db.decisions.c.time))).scalar_one()
            for table, place, number, moment in (
                (db.decisions, db.decisions.c.number, 2, first + 500_000),
                (db.decisions, db.decisions.c.number, 3, first + HOUR),
                (db.rewards, db.rewards.c.seq, 3, first),  # before its decision
                (db.rewards, db.rewards.c.seq, 4, first + 2 * HOUR),
            ):
                connection.execute(sa.update(table).where(place == number).values(time=moment))
        opened.close()
        every_report_answers(client)


def test_a_server_follows_one_whose_clock_is_ahead(postgres: str, clock: Clock) -> None:
    opened = db.Database(postgres)
    with application(postgres, staleness=0.02) as client:
        create(client)
        first = decide(client)
        with opened.writer.begin() as connection:  # as the other one would have written it
            row = connection.execute(sa.select(db.decisions)).one()._asdict()
            del row["number"]
            ahead = row["time"] + 500_000_000
            store.add_decisions(connection, [{**row, "id": "ahead", "time": ahead}])
        reward(client, {"decision_id": "ahead"}, 1.0)  # a reward is no earlier than its decision
        reward(client, first, 1.0)
        last = decide(client)
        stored = client.get(f"/v1/bandits/b/decisions/{last['decision_id']}").json()
        assert stored["time"] >= ahead
        with opened.writer.begin() as connection:
            store.add_decisions(connection, [{**row, "id": "further", "time": 2 * ahead}])
        for _ in range(1000):  # until it has been seen, though it is not the last row any more
            last = decide(client)
            stored = client.get(f"/v1/bandits/b/decisions/{last['decision_id']}").json()
            if stored["time"] >= 2 * ahead:
                break
        assert stored["time"] >= 2 * ahead
        assert client.get("/v1/bandits/b/statistics").status_code == 200
    opened.close()
