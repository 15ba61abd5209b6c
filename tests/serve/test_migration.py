"""Databases that older releases wrote are brought up to date, and nothing in them is lost."""

from typing import Any

import pytest
import sqlalchemy as sa

from linmed.serve import database as db
from linmed.serve import tokens

from .serving import application, decide, reward

VERSION_1 = """
CREATE TABLE linmed_schema (version INTEGER NOT NULL);
CREATE TABLE bandits (id {serial} NOT NULL, name TEXT NOT NULL, dim INTEGER NOT NULL, settings TEXT NOT NULL,
  version INTEGER NOT NULL, revision INTEGER NOT NULL, archived BOOLEAN NOT NULL, created BIGINT NOT NULL,
  PRIMARY KEY (id), UNIQUE (name));
CREATE TABLE tokens (id TEXT NOT NULL, hash {blob} NOT NULL, scopes TEXT NOT NULL, bandit TEXT,
  label TEXT NOT NULL, created BIGINT NOT NULL, PRIMARY KEY (id));
CREATE TABLE decisions (number {serial} NOT NULL, id TEXT NOT NULL, bandit {number} NOT NULL, "key" TEXT,
  digest {blob}, version INTEGER NOT NULL, absorbed BIGINT NOT NULL, time BIGINT NOT NULL,
  arm INTEGER NOT NULL, arm_id TEXT, arm_count INTEGER NOT NULL, best INTEGER NOT NULL,
  log_probability DOUBLE PRECISION NOT NULL, features {blob} NOT NULL, kept {blob},
  log_probabilities {blob}, arms {blob}, PRIMARY KEY (number), UNIQUE (id),
  FOREIGN KEY(bandit) REFERENCES bandits (id));
CREATE UNIQUE INDEX decisions_by_key ON decisions (bandit, "key") WHERE key IS NOT NULL;
CREATE INDEX decisions_of_bandit ON decisions (bandit, number);
CREATE TABLE policies (bandit {number} NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL,
  config TEXT NOT NULL, created BIGINT NOT NULL, PRIMARY KEY (bandit, version),
  FOREIGN KEY(bandit) REFERENCES bandits (id));
CREATE TABLE snapshots (bandit {number} NOT NULL, version INTEGER NOT NULL, seq BIGINT NOT NULL,
  state {blob} NOT NULL, time BIGINT NOT NULL, PRIMARY KEY (bandit, version, seq),
  FOREIGN KEY(bandit) REFERENCES bandits (id));
CREATE TABLE rewards (seq {number} NOT NULL, decision {number} NOT NULL, bandit {number} NOT NULL,
  reward DOUBLE PRECISION NOT NULL, time BIGINT NOT NULL, PRIMARY KEY (seq), UNIQUE (decision),
  FOREIGN KEY(decision) REFERENCES decisions (number), FOREIGN KEY(bandit) REFERENCES bandits (id));
CREATE INDEX rewards_of_bandit ON rewards (bandit, seq);
INSERT INTO linmed_schema VALUES (1);
INSERT INTO bandits (name, dim, settings, version, revision, archived, created)
  VALUES ('b', 2, '{{"catalogue": null, "map": "plain", "reward_range": null, "log_arms": true}}',
    1, 1, false, 5),
  ('listed', 2, '{{"catalogue": {{"ids": ["x", "y"], "features": [[1, 0], [0.6, 0.8]]}}, "map": "plain",
    "reward_range": [0, 1], "log_arms": true}}', 1, 1, false, 5);
INSERT INTO policies VALUES (1, 1, 'LinMED', '{{"policy": "LinMED", "sigma": 0.5}}', 5),
  (2, 1, 'LinMED', '{{"policy": "LinMED", "sigma": 0.5}}', 5);
INSERT INTO decisions (id, bandit, version, absorbed, time, arm, arm_count, best, log_probability, features)
  VALUES ('first', 1, 1, 0, 6, 0, 2, 0, -0.5, {one}), ('second', 1, 1, 0, 7, 1, 2, 0, -1.0, {one});
INSERT INTO rewards VALUES (1, 1, 1, 0.75, 8);
INSERT INTO snapshots VALUES (1, 1, 1, {one}, 9);
INSERT INTO tokens VALUES ('0123456789ab', {one}, 'read', NULL, 'old', 4)
"""
"""The schema of version 1 as that release created it, with a little in it."""
_ONE = "000000000000f03f0000000000000000"  # (1, 0) as float64
KINDS = {
    "sqlite": {"serial": "INTEGER", "number": "INTEGER", "blob": "BLOB", "one": f"X'{_ONE}'"},
    "postgres": {"serial": "BIGSERIAL", "number": "BIGINT", "blob": "BYTEA", "one": rf"'\x{_ONE}'"},
}


def version_1(url: str, backend: str) -> None:
    """Make the database of release 1 at `url`."""
    opened = db.Database(url)
    with opened.writer.begin() as connection:
        for statement in VERSION_1.format(**KINDS[backend]).split(";\n"):
            connection.exec_driver_sql(statement)
    opened.close()


def shape(url: str) -> Any:
    """Tables and their columns."""
    opened = db.Database(url)
    with opened.reader.begin() as connection:
        seen = sa.inspect(connection)
        found = {table: {one["name"] for one in seen.get_columns(table)} for table in seen.get_table_names()}
    opened.close()
    return found


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_database_of_the_first_release_is_brought_up_to_date(
    backend: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(backend)
    version_1(url, backend)
    for again in (1, len(db.MIGRATIONS), 1):  # nothing to do, then too much
        opened = db.Database(url)
        with opened.writer.begin() as connection:
            connection.execute(sa.update(db.schema).values(version=again))
        opened.open()
        (known,) = tokens.listing(opened)
        assert (known["id"], known["revoked"]) == ("0123456789ab", None)
        tokens.revoke(opened, "0123456789ab")
        with opened.writer.begin() as connection:
            assert connection.execute(sa.select(db.schema.c.version)).scalar_one() == len(db.MIGRATIONS)
            assert connection.execute(sa.select(sa.func.count()).select_from(db.snapshots)).scalar_one() == 0
            connection.execute(sa.update(db.tokens).values(revoked=None))
        opened.close()
    assert shape(url) == {
        table.name: {column.name for column in table.columns} for table in db.metadata.sorted_tables
    }
    opened = db.Database(url)
    with opened.writer.begin() as connection:
        connection.execute(sa.delete(db.tokens))
    opened.close()
    with application(url) as app:
        assert app.get("/v1/bandits/b/state").json()["count"] == 1
        reward(app, {"decision_id": "second"}, 0.25)
        reward(app, decide(app), 1.0)
        assert app.get("/v1/bandits/b/statistics").json()["rewards"] == 3
        listed = app.get("/v1/bandits/listed").json()
        assert listed["catalogue"] == {"ids": ["x", "y"], "features": [[1.0, 0.0], [0.6, 0.8]]}
        assert (listed["catalogue_version"], listed["reward_range"]) == (1, [0, 1])
        assert decide(app, "listed", context=[])["catalogue_version"] == 1
