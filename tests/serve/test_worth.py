"""Values and costs of a request: in the law, the log and the answer, and never in what is learned."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed import Agent, LinMED
from linmed.ope import DecisionLog
from linmed.serve.client import Client, ServiceError
from linmed.serve.database import Database
from linmed.serve.importing import import_file

from .serving import ARMS, application, create

NAMES = ["red", "green", "blue"]
ITEMS = {"ids": NAMES, "features": ARMS}
PRICES = {"red": 0.9, "green": 0.1, "blue": 0.2}
VALUES, COSTS = [2.0, 1.0, 3.0], [0.9, 0.1, 0.2]
TOLD = {"values": VALUES, "costs": COSTS}


def exported(client: Client, name: str, path: Path) -> list[dict[str, Any]]:
    client.export(name, path)
    log = DecisionLog.open(path)
    found: list[dict[str, Any]] = log.table([*log.columns]).to_pylist()
    return found


def test_decisions_are_by_utility_and_the_log_says_so(app: httpx.Client, tmp_path: Path) -> None:
    agent = Agent(LinMED(sigma=0.5), dim=2)
    with Client(str(app.base_url)) as client:
        create(app, catalogue=ITEMS)
        for paid in (0.4, 1.1, 0.7):
            one = client.decide("b", ARMS, values=VALUES, costs=COSTS)
            np.testing.assert_array_equal(one.probabilities, agent.probabilities(ARMS, **TOLD))
            client.reward("b", one, paid)
            agent.observe(ARMS[one.arm], paid)
        by_name = client.decide("b", costs=PRICES)  # of the catalogue
        some = client.decide("b", arm_ids=["blue", "red"], costs=PRICES, values=[1.0, 2.0])
        plain, also = client.decide_batch("b", [ARMS, ARMS], costs=[None, COSTS])
        with pytest.raises(ServiceError, match="among other arms") as other:
            client.decide("b", ARMS, key="once", costs=COSTS) and client.decide("b", ARMS, key="once")
        assert other.value.status == 409
        rows = exported(client, "b", tmp_path / "log.parquet")
    for seen, law in (
        (by_name, agent.probabilities(ARMS, costs=COSTS)),
        (some, agent.probabilities([ARMS[2], ARMS[0]], values=[1.0, 2.0], costs=[0.2, 0.9])),
        (plain, agent.probabilities(ARMS)),
        (also, agent.probabilities(ARMS, costs=COSTS)),
    ):
        # A catalogue's are logged in single precision.
        np.testing.assert_allclose(seen.probabilities, law, rtol=1e-6)
    assert (rows[0]["values"], rows[0]["costs"]) == (VALUES, COSTS)
    assert (rows[4]["values"], rows[4]["costs"]) == ([1.0, 2.0], [0.2, 0.9])
    assert (rows[5]["value"], rows[5]["cost"], rows[5]["costs"]) == (None, None, None)
    for row in rows:
        if row["costs"] is not None:
            assert row["cost"] == row["costs"][row["arm"]]
            assert row["value"] == row["values"][row["arm"]]
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    with application(elsewhere) as other_app, Client(str(other_app.base_url)) as client:
        database = Database(elsewhere)
        database.open()
        import_file(database, tmp_path / "log.parquet", "again")
        again = exported(client, "again", tmp_path / "again.parquet")
    assert [row["costs"] for row in again] == [row["costs"] for row in rows]
    assert [row["value"] for row in again] == [row["value"] for row in rows]


def test_the_largest_estimate_is_of_utility(sqlite: str) -> None:
    """Rewards of (1, 0) and (0, 1) are 0.9 and 0.8; clicks always and never."""
    clicks = {"policy": {"policy": "LogisticMED"}}
    with application(sqlite) as app, Client(str(app.base_url)) as client:
        for name, more in (("line", {}), ("clicks", clicks)):
            create(app, name, **more)
            for arm, paid in enumerate((1.0, 0.0) if more else (0.9, 0.8)):
                for _ in range(6):
                    client.reward(name, client.decide(name, [np.eye(2)[arm]]), paid)
        ways = [({"costs": [0.0, 0.0]}, 0), ({"costs": [1.0, 0.0]}, 1), ({"values": [0.1, 30.0]}, 1)]
        for name in ("line", "clicks"):
            for told, best in ways:
                law = client.decide(name, np.eye(2), **told).probabilities
                assert law is not None
                assert int(np.argmax(law)) == best
        database = Database(sqlite)
        database.open()
        with database.reader.begin() as connection:
            found = connection.exec_driver_sql(
                "SELECT best FROM decisions WHERE arm_count = 2 ORDER BY number"
            )
            assert found.scalars().all() == [0, 1, 1] * 2


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"arms": ARMS, "costs": [0.1]}, "costs", "costs must be one number, or one for each of 3 arms"),
    ({"arms": ARMS, "costs": [0.1, -1, 0]}, "costs", "costs must be 0 or more, got -1"),
    ({"arms": ARMS, "values": [1, 1, 0]}, "values", "values must be above 0"),
    ({"arms": ARMS, "values": [1, "a", 1]}, "values[1]", "values[1] must be a number"),
    ({"arms": ARMS, "values": 2}, "values", "values must be a list"),
    ({"arms": ARMS, "costs": PRICES}, "costs", "costs must be a list in the order of the arms"),
    ({"costs": {"red": 0.1}}, "costs", "costs has nothing for 'green'"),
    ({"costs": {**PRICES, "red": "dear"}}, "costs", "costs"),
]


def test_bad_values_and_costs_are_refused_by_name(app: httpx.Client) -> None:
    create(app, catalogue=ITEMS)
    for told, field, said in WRONG:
        answer = app.post("/v1/bandits/b/decide/batch", json={"decisions": [{}, told]})
        error = answer.json()["error"]
        assert (answer.status_code, error["field"]) == (422, f"decisions[1].{field}")
        assert said in error["message"]
    assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 0
    for name in ("EXP2", "CatalogueMED"):
        create(app, name, catalogue=ITEMS, policy={"policy": name})
        answer = app.post(f"/v1/bandits/{name}/decide", json={"costs": COSTS})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "costs")
        assert "no values and costs" in answer.json()["error"]["message"]
