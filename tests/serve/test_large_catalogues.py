"""Catalogues that are too large to be handled whole: they come in parts, and a change costs its own size."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed.serve import database as db
from linmed.serve import items, schemas, store
from linmed.serve.errors import Refused
from linmed.serve.items import ROOM, Catalogue, Rows

from .serving import application, create, decide, reward, until

COUNT, WIDTH, PART = 5000, 3, 1500
FEATURES = np.random.default_rng(3).normal(size=(COUNT, WIDTH)).round(6)
ODD = ["a b", "a/b", "ä–ö", "%2F", "'; --", '"', "\\", "..", "?x=1#y", "\U0001f45f", "next", "\n"]
"""Ids that mean something to somebody else."""


def name(k: int) -> str:
    return ODD[k] if k < len(ODD) else f"item-{k}"


def upload(client: httpx.Client, bandit: str = "b") -> list[dict[str, Any]]:
    answers = []
    for first in range(0, COUNT, PART):
        part = range(first, min(first + PART, COUNT))
        body = {"ids": [name(k) for k in part], "features": FEATURES[part].tolist()}
        answer = client.put(f"/v1/bandits/{bandit}/items", json=body)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    return answers


def whole(client: httpx.Client, version: int | None = None, limit: int = 999) -> dict[str, list[float]]:
    """A catalogue, part by part."""
    path, found, after = "/v1/bandits/b/catalogue", {}, None
    if version is not None:
        path += f"/{version}"
    while True:
        query = {"limit": limit} | ({} if after is None else {"after": after})
        answer = client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        part = answer.json()
        assert len(part["ids"]) <= limit
        assert not found.keys() & set(part["ids"])
        found |= dict(zip(part["ids"], part["features"], strict=True))
        after = part["next"]
        if after is None:
            return found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_catalogue_comes_in_parts_and_is_read_in_parts(kind: str, request: pytest.FixtureRequest) -> None:
    with application(request.getfixturevalue(kind)) as app:
        create(app, dim=WIDTH)
        counts = [min(first + PART, COUNT) for first in range(0, COUNT, PART)]
        assert upload(app) == [{"catalogue_version": i + 1, "items": n} for i, n in enumerate(counts)]
        every = {name(k): FEATURES[k].tolist() for k in range(COUNT)}
        assert list(whole(app).items()) == list(every.items())  # their order too
        assert list(whole(app, 2)) == [name(k) for k in range(2 * PART)]
        assert upload(app)[-1] == {"catalogue_version": 4, "items": COUNT}  # the same again changes nothing
        for odd in ODD:  # each can be named, changed and removed
            assert decide(app, arm_ids=[odd, name(100)])["arm_id"] in (odd, name(100))
        app.request("PUT", "/v1/bandits/b/items", json={"ids": ODD, "features": [[1.0] * WIDTH] * len(ODD)})
        assert [whole(app)[odd] for odd in ODD] == [[1.0] * WIDTH] * len(ODD)
        assert whole(app, 4) == every
        after = app.get("/v1/bandits/b/catalogue", params={"after": "nobody"})
        assert (after.status_code, after.json()["error"]["field"]) == (404, "after")
        for wrong in ({"limit": 0}, {"limit": schemas.PAGE + 1}, {"limit": "many"}, {"page": 2}):
            assert app.get("/v1/bandits/b/catalogue", params=wrong).status_code == 422


def test_a_bandit_is_described_without_its_items_where_they_are_many(app: httpx.Client) -> None:
    create(app, dim=WIDTH)
    upload(app)
    shown = app.get("/v1/bandits/b").json()
    assert (shown["catalogue"], shown["items"], shown["catalogue_version"]) == (None, COUNT, 4)
    assert app.patch("/v1/bandits/b", json={"reward_range": [0, 1]}).json()["catalogue"] is None
    again = {"name": "b", "dim": WIDTH, "policy": {"policy": "LinMED", "sigma": 0.5}, "reward_range": [0, 1]}
    refused = app.post("/v1/bandits", json=again)
    assert refused.status_code == 409
    assert "catalogue has other items" in refused.json()["error"]["message"]
    some = {"ids": ["x"], "features": [[1.0] * WIDTH]}
    refused = app.post("/v1/bandits", json={**again, "catalogue": some}).json()["error"]["message"]
    assert "catalogue has other items" in refused
    every = {"ids": [name(k) for k in range(COUNT)], "features": FEATURES.tolist()}
    assert app.post("/v1/bandits", json={**again, "catalogue": every}).status_code == 200
    every["features"][7][0] += 1.0
    refused = app.post("/v1/bandits", json={**again, "catalogue": every}).json()["error"]["message"]
    assert "or other features, there" in refused


def test_a_change_reads_and_writes_what_it_changes_and_nothing_else(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of `items` that come from the database, and that are put on a shelf, for a change of two."""
    with application(sqlite) as app:
        create(app, dim=WIDTH)
        upload(app)
        fetched = []
        monkeypatch.setattr(
            items, "_rows", lambda rows, usual=items._rows: fetched.append(len(rows)) or usual(rows)
        )
        body = {"ids": [name(200), "new"], "features": [[1.0] * WIDTH, [2.0] * WIDTH]}
        assert app.put("/v1/bandits/b/items", json=body).json() == {
            "catalogue_version": 5,
            "items": COUNT + 1,
        }
        assert app.delete(f"/v1/bandits/b/items/{name(300)}").json() == {
            "catalogue_version": 6,
            "items": COUNT,
        }
        assert fetched == [2]
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        query = sa.select(sa.func.count()).select_from(db.items)
        assert connection.execute(query).scalar_one() == COUNT + 2
        row = store.the_bandit(connection, "b")
        afresh = items.present_catalogue(connection, row)
    opened.close()
    assert afresh is not None
    assert (afresh.count, row.item_count) == (COUNT, COUNT)


def test_questions_about_some_items_do_not_go_through_all_of_them(sqlite: str) -> None:
    """Steps of SQLite's machine: some dozens for each item that is asked for, not for each that there is."""
    with application(sqlite) as app:
        create(app, dim=WIDTH)
        upload(app)
    some, opened = [name(k) for k in range(0, COUNT, 10)], db.Database(sqlite)
    with opened.reader.begin() as connection:
        row, steps = store.the_bandit(connection, "b"), 0
        driver: Any = connection.connection.driver_connection

        def step() -> None:
            nonlocal steps
            steps += 1

        questions = [
            (len(some), lambda: items._present(connection, row.id, some)),
            (10, lambda: items.page(connection, row.id, row.catalogue, 10)),
            (10, lambda: items.page(connection, row.id, row.catalogue, 10, name(4000))),
            (10, lambda: items.page(connection, row.id, 2, 10, name(1000))),
        ]
        driver.set_progress_handler(step, 1)
        taken = []
        for number, ask in questions:
            before = steps
            ask()
            taken.append((steps - before) / number)
        driver.set_progress_handler(None, 1)
    opened.close()
    assert max(taken) < 100, taken  # COUNT is 10 times, or 500 times, as many as are asked for


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_items_are_removed_at_once_as_often_as_one_asks(
    kind: str, request: pytest.FixtureRequest
) -> None:
    path = "/v1/bandits/b/items/remove"
    with application(request.getfixturevalue(kind)) as app:
        create(app, dim=WIDTH)
        upload(app)
        late = decide(app, arm_ids=[name(0)])
        gone = [name(k) for k in range(2000)] + [name(7)]  # one of them twice
        left = {"catalogue_version": 5, "items": COUNT - 2000}
        assert app.post(path, json={"ids": gone}).json() == left  # one version for all of them
        assert app.post(path, json={"ids": gone}).json() == left
        more = app.post(path, json={"ids": [name(1), name(2000)]})  # the first is out already
        assert more.json() == {"catalogue_version": 6, "items": COUNT - 2001}
        wrong = app.post(path, json={"ids": [name(3000), "nobody"]})
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "ids[1]")
        every = app.post(path, json={"ids": [name(k) for k in range(COUNT)]})
        assert (every.status_code, every.json()["error"]["field"]) == (409, "ids")
        assert list(whole(app)) == [name(k) for k in range(2001, COUNT)]  # a refusal removes nothing
        assert list(whole(app, 5)) == [name(k) for k in range(2000, COUNT)]
        assert app.post("/v1/bandits/b/decide", json={"arm_ids": [name(0)]}).status_code == 422
        reward(app, late, 1.0)
        back = {"ids": [name(0)], "features": [FEATURES[0].tolist()]}
        assert app.put("/v1/bandits/b/items", json=back).json()["items"] == COUNT - 2000
        assert decide(app, arm_ids=[name(0)])["catalogue_version"] == 7


def test_nothing_can_be_removed_where_there_is_no_catalogue(app: httpx.Client) -> None:
    create(app)
    for body, field in (({"ids": ["a"]}, "ids[0]"), ({"ids": []}, "ids"), ({}, "ids")):
        refused = app.post("/v1/bandits/b/items/remove", json=body)
        assert (refused.status_code, refused.json()["error"]["field"]) == (422, field)


def test_two_servers_change_one_catalogue_at_once_and_agree(postgres: str) -> None:
    with application(postgres, staleness=0.2) as one, application(postgres, staleness=0.2) as two:
        create(one, dim=WIDTH)
        upload(one)

        def change(client: httpx.Client, mine: str) -> None:
            for k in range(12):
                body = {"ids": [f"{mine}-{k}", name(k)], "features": [[float(k)] * WIDTH] * 2}
                assert client.put("/v1/bandits/b/items", json=body).status_code == 200
                assert client.delete(f"/v1/bandits/b/items/{mine}-{k}").status_code == 200

        with ThreadPoolExecutor(2) as both:
            list(both.map(change, (one, two), ("x", "y")))
        assert whole(one) == whole(two)
        assert len(whole(one)) == COUNT
        last = one.get("/v1/bandits/b").json()["catalogue_version"]
        some = [name(k) for k in range(5)]
        until(
            lambda: all(decide(app, arm_ids=some)["catalogue_version"] == last for app in (one, two)),
        )
        taken = [decide(app, arm_ids=some) for app in (one, two)]
        np.testing.assert_allclose(taken[0]["probabilities"], taken[1]["probabilities"], rtol=1e-6)
        gone = two.post("/v1/bandits/b/decide", json={"arm_ids": ["x-3"]})
        assert (gone.status_code, gone.json()["error"]["field"]) == (422, "arm_ids[0]")
        reward(two, taken[0], 1.0)


def test_estimates_of_a_large_catalogue_are_of_the_best_items(app: httpx.Client) -> None:
    create(app, dim=WIDTH + 1, policy={"policy": "Greedy"})
    upload(app)
    app.delete(f"/v1/bandits/b/items/{name(0)}")
    for k in (5, 50, 500):
        reward(app, decide(app, arm_ids=[name(k)], context=[1.0]), k / 500)
    theta = np.array(app.get("/v1/bandits/b/state").json()["theta"])
    found = app.get("/v1/bandits/b/arms").json()
    assert (found["count"], len(found["arms"])) == (COUNT - 1, 100)
    scores = FEATURES @ theta[:WIDTH] + theta[WIDTH]
    expected = [k for k in np.argsort(-scores) if k][:100]
    assert [one["id"] for one in found["arms"]] == [name(k) for k in expected]
    assert [one["place"] for one in found["arms"]] == [k - 1 for k in expected]
    np.testing.assert_allclose([one["estimate"] for one in found["arms"]], scores[expected], atol=1e-12)


def test_what_is_too_large_is_refused_by_name(app: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(app, dim=WIDTH)
    upload(app)
    monkeypatch.setattr(items, "MOST_ITEMS", COUNT + 1)
    monkeypatch.setattr(items, "MOST_AT_ONCE", COUNT - 1)
    two = {"ids": ["x", "y"], "features": [[1.0] * WIDTH] * 2}
    full = app.put("/v1/bandits/b/items", json=two)
    assert (full.status_code, full.json()["error"]["field"]) == (422, "ids")
    replaced = app.patch("/v1/bandits/b", json={"catalogue": two})
    assert (replaced.status_code, replaced.json()["error"]["field"]) == (409, "catalogue")
    many = app.post("/v1/bandits/b/decide", json={})
    assert (many.status_code, many.json()["error"]["field"]) == (422, "arm_ids")
    assert len(whole(app)) == COUNT


def test_versions_stay_as_they_were_while_the_shelf_is_filled() -> None:
    """A thread reads one version over and over, another puts the next ones behind it."""
    rng = np.random.default_rng(0)
    first = Catalogue.of([f"i{k}" for k in range(50)], rng.normal(size=(50, 2)), 1)
    kept = first.features.copy()
    wrong: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen = [first.row(f"i{k}") for k in range(60)]
            if seen != [*range(50), *[-1] * 10] or not np.array_equal(first.matrix, kept):
                wrong.append(str(seen))

    reader = threading.Thread(target=look)
    reader.start()
    now, model = first, {f"i{k}": tuple(kept[k]) for k in range(50)}
    number = 50
    for version in range(2, 400):
        ids = sorted({f"i{k}" for k in rng.integers(0, 80, size=9)})
        removed = sorted({f"i{k}" for k in rng.integers(0, 80, size=5)} & model.keys() - set(ids))
        features = rng.normal(size=(len(ids), 2))
        numbers = np.arange(number, number + len(ids))
        number += len(ids)
        gone = [*removed, *(one for one in ids if one in model)]
        before, was = now, dict(model)
        now = now.put(Rows(ids, features, numbers, numbers, gone), version)
        for one in removed:
            del model[one]
        model |= {one: tuple(row) for one, row in zip(ids, features, strict=True)}
        for catalogue, items_then in ((before, was), (now, model)):
            assert dict(zip(catalogue.names, map(tuple, catalogue.features), strict=True)) == items_then
            assert catalogue.count == len(items_then) == catalogue.live.sum()
    done.set()
    reader.join()
    assert not wrong
    assert now.used <= 2 * (ROOM + 100), "rows that are gone are given up"


def test_nothing_is_put_where_the_change_is_refused(app: httpx.Client) -> None:
    create(app, dim=WIDTH)
    upload(app)
    huge = '{"ids": ["z"], "features": [[' + ", ".join(["1e400"] * WIDTH) + "]]}"
    for body in (
        huge,
        '{"ids": ["z"], "features": [[1e13, 0, 0]]}',
        '{"ids": ["z", "z"], "features": [[1, 0, 0], [1, 0, 0]]}',
        '{"ids": ["z"], "features": [[1, 0]]}',
        '{"ids": ["z"], "features": [[1, 0, 0], [1, 0, 0]]}',
        '{"ids": ["' + "z" * 201 + '"], "features": [[1, 0, 0]]}',
        '{"ids": ["z\\u0000"], "features": [[1, 0, 0]]}',
        '{"ids": ["z"], "features": [[' + "9" * 4000 + ", 0, 0]]}",
    ):
        for padded in (body, body + " " * 70_000):
            answer = app.put(
                "/v1/bandits/b/items", content=padded, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 422, (padded[:80], answer.text)
            assert answer.json()["error"]["field"], answer.text
    assert app.get("/v1/bandits/b").json()["catalogue_version"] == 4


def test_after_names_an_item_of_any_version(sqlite: str) -> None:
    opened = db.Database(sqlite)
    opened.open()
    with application(sqlite) as app:
        create(app, dim=WIDTH)
        upload(app)
        app.delete(f"/v1/bandits/b/items/{name(40)}")
    with opened.reader.begin() as connection:
        behind = items.page(connection, 1, 5, 3, name(40))  # gone, and its place is known
        assert behind.ids == [name(41), name(42), name(43)]
        with pytest.raises(Refused, match="no item"):
            items.page(connection, 1, 5, 3, "never")
    opened.close()
