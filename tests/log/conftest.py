"""One log in every form that a log can have."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from linmed import LinMED
from linmed.log import DecisionLog, LogWriter
from linmed.serve import database
from linmed.serve.bandit import Bandit
from linmed.serve.live_log import LiveSource

ROWS = 61
SOURCES = ("directory", "file", "table", "foreign", "named", "dsjson", "live")
"""One form of each kind of source."""
FORMS = ("directory", "saved", "file", "table", "foreign", "csv", "named", "dsjson", "vw", "live")


@pytest.fixture(scope="session")
def forms(tmp_path_factory) -> dict[str, DecisionLog]:
    """The same decisions as every source has them; two of seven wait for their reward, one came late."""
    place = tmp_path_factory.mktemp("forms")
    rng = np.random.default_rng(0)
    with LogWriter(place / "directory", flush_rows=7) as writer:
        for i in range(ROWS):
            p = rng.dirichlet(np.ones(3))
            arms = rng.normal(size=(3, 2))
            writer.record(
                f"e{i}",
                arm=i % 3,
                arm_count=3,
                log_probability=float(np.log(p[i % 3])),
                log_probabilities=np.log(p),
                features=arms[i % 3],
                arms=arms,
                arm_id=f"item{i % 3}",
                policy="first" if i < 30 else "second",
                version=i,
                time=1e9 + i,
            )
            if i % 7 not in (2, 5):
                writer.reward(f"e{i}", float(i % 2), time=1e9 + 100 + i)
        for i in range(ROWS):
            if i % 7 == 5:
                writer.reward(f"e{i}", 1.0, time=1e9 + 1000 + i)
    log = DecisionLog.open(place / "directory")
    table = log.table().combine_chunks()
    log.save(place / "saved")
    pq.write_table(table, place / "file.parquet", row_group_size=13)
    log.to_dsjson(place / "log.dsjson")
    plain = table.select(["time", "arm_id", "probability", "reward", "version", "decision_id"])
    plain = plain.rename_columns(["when", "item", "p", "click", "round", "id"])
    (place / "foreign").mkdir()
    for i in range(4):
        pq.write_table(plain.slice(20 * i, 20), place / "foreign" / f"part-{i}.parquet")
    pv.write_csv(plain, place / "named.csv")
    pv.write_csv(
        table.select(["time", "arm", "arm_count", "probability", "reward", "version"]), place / "log.csv"
    )
    lines = [
        f"{row['arm'] + 1}:{-(row['reward'] or 0.0)}:{row['probability']} | x:{row['version']}\n"
        for row in table.to_pylist()
    ]
    (place / "log.vw").write_text("".join(lines))
    names = {"time": "when", "arm": "item", "probability": "p", "reward": "click", "decision_id": "id"}
    return {
        "directory": log,
        "saved": DecisionLog.open(place / "saved"),
        "file": DecisionLog.open(place / "file.parquet"),
        "table": DecisionLog.from_table(table),
        "foreign": DecisionLog.open(place / "foreign", names),
        "csv": DecisionLog.from_csv(place / "log.csv"),
        "named": DecisionLog.from_csv(place / "named.csv", names),
        "dsjson": DecisionLog.from_dsjson(place / "log.dsjson"),
        "vw": DecisionLog.from_vw(place / "log.vw", arm_count=3),
        "live": DecisionLog(live(table), "service"),
    }


def live(table: pa.Table) -> LiveSource:
    """The service's database with the decisions of `table`."""
    engine = sa.create_engine("sqlite://", poolclass=sa.pool.StaticPool)
    database.metadata.create_all(engine)
    bandit = Bandit(id=1, name="shop", dim=2, policy=LinMED())
    decided, rewarded = [], []
    for number, row in enumerate(table.to_pylist(), start=1):
        decided.append(
            {
                "number": number,
                "id": row["decision_id"],
                "bandit": 1,
                "version": 1,
                "absorbed": row["version"],
                "time": int(row["time"].timestamp() * 1e6),
                "arm": row["arm"],
                "arm_id": row["arm_id"],
                "arm_count": 3,
                "best": 0,
                "log_probability": row["log_probability"],
                "features": np.array(row["features"], "<f8").tobytes(),
                "log_probabilities": np.log(row["probabilities"]).astype("<f8").tobytes(),
                "arms": np.array(row["arms"], "<f8").tobytes(),
            }
        )
        if row["reward"] is not None:
            moment = int(row["reward_time"].timestamp() * 1e6)
            reward = {"seq": number, "decision": number, "bandit": 1, "reward": row["reward"]}
            rewarded.append(reward | {"kind": "reward", "time": moment})
    connection = engine.connect()
    shop = {"id": 1, "name": "shop", "dim": 2, "settings": "{}", "version": 1, "revision": 1}
    connection.execute(sa.insert(database.bandits), shop | {"archived": False, "created": 0})
    policy = {"bandit": 1, "version": 1, "name": "LinMED-90", "config": "{}", "created": 0}
    connection.execute(sa.insert(database.policies), policy)
    connection.execute(sa.insert(database.decisions), decided)
    connection.execute(sa.insert(database.rewards), rewarded)
    return LiveSource(connection, bandit)
