"""Ask and write the database, but for items. Values travel as bound parameters only."""

import functools
import hashlib
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.features import Features
from linmed.policies import Policy
from linmed.serve.bandit import Bandit, Options
from linmed.serve.database import (
    CAME,
    bandits,
    blob,
    decisions,
    items,
    now,
    origins,
    parts,
    policies,
    rewards,
    snapshots,
    unpack,
    vector,
    waiting,
)
from linmed.serve.encoding import Joining
from linmed.serve.errors import Refused
from linmed.serve.items import Catalogue, present_catalogue, replace_catalogue
from linmed.validation import Floats

FOLD_ROWS = 10_000
KEPT_SNAPSHOTS = 2

Rows = Sequence[Any]
"""Rows of the log, or what looks like them."""


# Bandits and their policies

_BANDIT = (
    sa.select(bandits, policies.c.config, policies.c.name.label("policy_name"))
    .select_from(bandits)
    .join(policies, (policies.c.bandit == bandits.c.id) & (policies.c.version == bandits.c.version))
)


def find_bandit(connection: Connection, name: str) -> Row[Any] | None:
    """Find the bandit called `name` with its present policy."""
    return connection.execute(_BANDIT.where(bandits.c.name == name)).one_or_none()


def the_bandit(connection: Connection, name: str) -> Row[Any]:
    """Find the bandit called `name`, or refuse."""
    row = find_bandit(connection, name)
    if row is None:
        raise Refused("unknown", f"there is no bandit {name!r}")
    return row


def list_bandits(connection: Connection) -> Rows:
    """List all bandits, by name."""
    return connection.execute(_BANDIT.order_by(bandits.c.name)).all()


def revisions(connection: Connection) -> dict[int, int]:
    """Read the revision of every bandit."""
    rows = connection.execute(sa.select(bandits.c.id, bandits.c.revision))
    return {row.id: row.revision for row in rows}


def policy_of(row: Row[Any]) -> Policy:
    """Make the present policy of the bandit of this row."""
    return Policy.from_dict(json.loads(row.config))


def as_bandit(connection: Connection, row: Row[Any], catalogue: Catalogue | None = None) -> Bandit:
    """Make the bandit in memory, before any reward; without items unless they are given, or it needs them."""
    settings, policy = json.loads(row.settings), policy_of(row)
    features = settings.get("features")
    if catalogue is None and not policy.learns_from_arms:
        catalogue = present_catalogue(connection, row)
    return Bandit(
        id=row.id,
        name=row.name,
        dim=row.dim,
        policy=policy,
        version=row.version,
        revision=row.revision,
        archived=row.archived,
        log_arms=settings["log_arms"],
        options=Options.of(settings),
        map=settings["map"],
        features=None if features is None else Features.from_dict(features),
        reward_range=None if settings["reward_range"] is None else tuple(settings["reward_range"]),
        catalogue=catalogue,
    )


def add_bandit(
    connection: Connection,
    name: str,
    dim: int,
    settings: str,
    policy: Policy,
    catalogue: Catalogue | None = None,
) -> None:
    """Write a new bandit with version 1 of its policy and of its catalogue."""
    values = {"name": name, "dim": dim, "settings": settings, "version": 1, "revision": 1, "archived": False}
    result = connection.execute(sa.insert(bandits).values(**values, created=now()))
    assert result.inserted_primary_key is not None
    number = result.inserted_primary_key[0]
    add_policy(connection, number, 1, policy)
    if catalogue is not None:
        written = replace_catalogue(connection, the_bandit(connection, name), catalogue)
        connection.execute(sa.update(bandits).where(bandits.c.id == number).values(**written._asdict()))


def add_policy(connection: Connection, bandit: int, version: int, policy: Policy) -> None:
    """Write version `version` of a bandit's policy."""
    config = json.dumps(policy.to_dict())
    values = {"bandit": bandit, "version": version, "name": policy.name, "config": config}
    connection.execute(sa.insert(policies).values(**values, created=now()))


def change_bandit(connection: Connection, bandit: int, **values: Any) -> None:
    """Change some columns and the revision, so that every server takes notice."""
    change = sa.update(bandits).where(bandits.c.id == bandit)
    connection.execute(change.values(revision=bandits.c.revision + 1, **values))


def policy_names(connection: Connection, bandit: int) -> dict[int, str]:
    """Read the name of every version of a bandit's policy."""
    rows = connection.execute(
        sa.select(policies.c.version, policies.c.name).where(policies.c.bandit == bandit)
    )
    return {row.version: row.name for row in rows}


def newest_times(connection: Connection) -> dict[int, int]:
    """Read when the last decision or reward of every bandit was written, for those that have one."""
    last = (
        sa.select(table.c.time)
        .where(table.c.bandit == bandits.c.id)
        .order_by(order.desc())
        .limit(1)
        .scalar_subquery()
        for table, order in ((decisions, decisions.c.number), (rewards, rewards.c.seq))
    )
    rows = connection.execute(sa.select(bandits.c.id, *last))
    return {bandit: max(taken, came or taken) for bandit, taken, came in rows if taken is not None}


# Decisions

INSERTED = 500
"""Rows in one INSERT: both databases take more values."""
_MICRO = 1e6
_WRITTEN = [column.name for column in decisions.c if column.name != "number"]
_values = operator.itemgetter(*_WRITTEN)

_HIDDEN = (  # what no answer shows
    *("best", "features", "kept", "arms", "item", "offered", "context"),
    *("every_value", "every_cost"),
)
_STORED = sa.select(*(decisions.c[name] for name in _WRITTEN if name not in _HIDDEN))


def decisions_by_key(
    connection: Connection, keys: dict[int, list[str]]
) -> dict[tuple[int, str], dict[str, Any]]:
    """Find decisions that were taken earlier under these keys, by bandit and key."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for bandit, names in keys.items():
        for part in parts(names):
            rows = connection.execute(
                _STORED.where((decisions.c.bandit == bandit) & decisions.c.key.in_(part))
            )
            found.update({(bandit, row.key): {**row._mapping, "repeated": True} for row in rows})
    return found


def decisions_known(connection: Connection, identifiers: Sequence[str]) -> set[str]:
    """Find which of these ids are in the log."""
    found: set[str] = set()
    for part in parts(identifiers):
        found.update(connection.execute(sa.select(decisions.c.id).where(decisions.c.id.in_(part))).scalars())
    return found


def add_decisions(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Append decisions in this order."""
    for part in parts(rows, INSERTED):
        values = tuple(itertools.chain.from_iterable(map(_values, part)))
        connection.exec_driver_sql(_insertion(connection.dialect.paramstyle, len(part)), values)


def add_waiting(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Have decisions that were just added wait for their rewards, where their bandit has deadlines."""
    timed = {row["id"]: row for row in rows if row.get("wait") is not None}
    for part in parts([*timed]):
        found = connection.execute(
            sa.select(decisions.c.id, decisions.c.number).where(decisions.c.id.in_(part))
        )
        connection.execute(
            sa.insert(waiting),
            [
                {
                    "decision": number,
                    "bandit": timed[name]["bandit"],
                    "deadline": timed[name]["time"] + round(_MICRO * timed[name]["wait"].wait),
                    "missing": timed[name]["wait"].missing,
                    "hold": timed[name]["wait"].early == "hold",
                }
                for name, number in found.all()
            ],
        )


@functools.lru_cache(maxsize=2 * INSERTED)
def _insertion(style: str, rows: int) -> str:
    """Write one statement for many rows: a driver gives up the interpreter's lock at each."""
    mark = "?" if style == "qmark" else "%s"
    one = f"({', '.join([mark] * len(_WRITTEN))})"
    return f"INSERT INTO decisions ({', '.join(_WRITTEN)}) VALUES {', '.join([one] * rows)}"


def find_decision(connection: Connection, bandit: int, identifier: str) -> Row[Any] | None:
    """Find one decision with its reward, and its deadline while that is to come."""
    query = (
        _STORED.add_columns(*REWARDED, waiting.c.deadline)
        .select_from(with_rewards(decisions))
        .outerjoin(waiting, waiting.c.decision == decisions.c.number)
        .where((decisions.c.id == identifier) & (decisions.c.bandit == bandit))
    )
    return connection.execute(query).one_or_none()


# Rewards

_assumed = rewards.alias("assumed")
REWARDED = (
    sa.func.coalesce(rewards.c.reward, _assumed.c.reward).label("reward"),
    sa.func.coalesce(rewards.c.time, _assumed.c.time).label("reward_time"),
    rewards.c.outcomes,
    _assumed.c.reward.label("assumed"),
)
"""What is known of the reward of a decision (`with_rewards`): the one that came or, where the deadline passed
before, the one that was assumed."""
counted = sa.func.coalesce(_assumed.c.reward, rewards.c.reward)
"""What counts where rewards that came after their deadline do not."""


def with_rewards(joined: Any) -> Any:
    """Join to decisions the reward that came and the one that was assumed."""
    came = (rewards.c.decision == decisions.c.number) & rewards.c.kind.in_(CAME)
    assumed = (_assumed.c.decision == decisions.c.number) & (_assumed.c.kind == "missing")
    return joined.outerjoin(rewards, came).outerjoin(_assumed, assumed)


_PLAYED = (
    *decisions.c["version", "features", "kept", "context"],
    items.c.features.label("item"),
    decisions.c.time.label("decided"),
)
"""What the state needs of the decision that a reward belongs to: see `played`."""


def decisions_to_reward(connection: Connection, identifiers: Iterable[str]) -> dict[str, Row[Any]]:
    """Find what a reward needs of its decision, and the reward it has already, by id."""
    query = (
        sa.select(
            *decisions.c["number", "id", "bandit", "time"],
            *_PLAYED,
            *rewards.c["reward", "outcomes"],
            _assumed.c.reward.label("assumed"),
            waiting.c.hold,
        )
        .select_from(with_rewards(decisions))
        .outerjoin(items, items.c.number == decisions.c.item)
        .outerjoin(waiting, waiting.c.decision == decisions.c.number)
    )
    found: dict[str, Row[Any]] = {}
    for part in parts(list(identifiers)):
        found.update({row.id: row for row in connection.execute(query.where(decisions.c.id.in_(part)))})
    return found


def reward_kinds(connection: Connection, bandit: int) -> dict[str, int]:
    """Count the rows of a bandit's rewards by kind, and as "outcomes" those that have some."""
    counts = sa.select(rewards.c.kind, sa.func.count(), sa.func.count(rewards.c.outcomes))
    rows = connection.execute(counts.where(rewards.c.bandit == bandit).group_by(rewards.c.kind)).all()
    return {kind: count for kind, count, _ in rows} | {"outcomes": sum(more for _, _, more in rows)}


def due(connection: Connection, moment: int, limit: int) -> Rows:
    """Read decisions whose deadline has come by a moment, in this order, and the rewards held for them."""
    query = (
        sa.select(*waiting.c["decision", "bandit", "deadline", "missing"], *_PLAYED, rewards.c.reward)
        .join(decisions, decisions.c.number == waiting.c.decision)
        .outerjoin(items, items.c.number == decisions.c.item)
        .outerjoin(rewards, (rewards.c.decision == waiting.c.decision) & (rewards.c.kind == "held"))
        .where(waiting.c.deadline <= moment)
        .order_by(waiting.c.deadline, waiting.c.decision)
    )
    return connection.execute(query.limit(limit)).all()


def first_deadline(connection: Connection) -> int | None:
    """Read the first deadline that is to come."""
    first: int | None = connection.execute(sa.select(sa.func.min(waiting.c.deadline))).scalar_one()
    return first


def forget_waiting(connection: Connection, numbers: Sequence[int]) -> None:
    """Take decisions out of those that wait for a deadline."""
    for part in parts(numbers):
        connection.execute(sa.delete(waiting).where(waiting.c.decision.in_(part)))


def add_rewards(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Append rewards; their numbers were assigned under the lock."""
    connection.execute(sa.insert(rewards), rows)


def last_seq(connection: Connection, bandit: int | None = None) -> int:
    """Read the number of the newest reward, of all bandits or of one."""
    query = sa.select(sa.func.max(rewards.c.seq))
    if bandit is not None:
        query = query.where(rewards.c.bandit == bandit)
    newest: int | None = connection.execute(query).scalar_one()
    return newest or 0


_FOLD = (
    sa.select(*rewards.c["seq", "bandit", "kind", "reward"], *_PLAYED)
    .select_from(rewards)
    .join(decisions, decisions.c.number == rewards.c.decision)
    .outerjoin(items, items.c.number == decisions.c.item)
    .order_by(rewards.c.seq)
)


def rewards_after(connection: Connection, seq: int, limit: int | None = None) -> Rows:
    """Read all bandits' rewards after number `seq`, in order."""
    return connection.execute(_FOLD.where(rewards.c.seq > seq).limit(limit)).all()


def bandit_rewards(
    connection: Connection, bandit: int, after: int, until: int | None = None
) -> Iterator[Rows]:
    """Read a bandit's rewards after number `after`, of decisions up to `until`, in order, in pieces."""
    query = _FOLD.where((rewards.c.bandit == bandit) & (rewards.c.seq > after))
    if until is not None:
        query = query.where(rewards.c.decision <= until)
    with connection.execution_options(yield_per=FOLD_ROWS).execute(query) as result:
        yield from result.partitions()


def reward_values(connection: Connection, bandit: int) -> Iterator[Floats]:
    """Read all rewards of a bandit, some thousands at a time."""
    query = sa.select(rewards.c.reward).where(rewards.c.bandit == bandit)
    # An option of the statement: one of the connection would stay with it, and what is written next fails.
    with connection.execute(query.execution_options(yield_per=FOLD_ROWS)) as result:
        for rows in result.scalars().partitions():
            yield np.array(rows, dtype=np.float64)


def played(row: Any, joining: Joining) -> bytes:
    """Make the arm of a decision (d,), as `blob` writes it: from the request, or again from its item."""
    if row.item is None:
        features: bytes = row.features
        return features
    context = np.empty(0) if row.context is None else unpack(row.context)
    return blob(joining.join(vector(row.item)[None], context))


def fold(bandit: Bandit, rows: Rows) -> None:
    """Take reward rows of this bandit into its state, in order; those it has are left out."""
    fresh = [row for row in rows if row.seq > bandit.seq]
    wanted = [row for row in fresh if bandit.absorbs(row.version) and row.kind != "held"]
    for late, group in itertools.groupby(wanted, lambda row: row.kind == "late"):
        some = list(group)
        content = b"".join(row.kept if bandit.keeps else played(row, bandit.joining) for row in some)
        features = vector(content).reshape(len(some), bandit.dim)
        values = np.array([row.reward for row in some], dtype=np.float64)
        if late:
            bandit.correct(features, values)
        else:
            bandit.fold(features, values, np.array([row.decided for row in some], dtype=np.float64) / _MICRO)
    if fresh:
        bandit.seq = fresh[-1].seq


def fold_log(connection: Connection, bandit: Bandit, until: int | None = None) -> None:
    """Take the rewards of the log, or of its decisions up to `until`, that this bandit has not considered."""
    for rows in bandit_rewards(connection, bandit.id, bandit.seq, until):
        fold(bandit, rows)


def origin(connection: Connection, bandit: int) -> bytes | None:
    """Read the state with which this bandit's log begins, where it was imported with one."""
    query = sa.select(origins.c.state, origins.c.digest).where(origins.c.bandit == bandit)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    if hashlib.sha256(row.state).digest() != row.digest:
        text = "the state with which this bandit began is damaged: bring the database back from a backup"
        raise Refused("failed", text)
    state: bytes = row.state
    return state


# Snapshots


def add_snapshot(connection: Connection, bandit: int, version: int, seq: int, state: bytes) -> None:
    """Write a state that holds the rewards up to `seq`, and forget older ones."""
    own = (snapshots.c.bandit == bandit) & (snapshots.c.version == version)
    connection.execute(sa.delete(snapshots).where(own & (snapshots.c.seq == seq)))
    values = {"bandit": bandit, "version": version, "seq": seq, "state": state, "time": now()}
    connection.execute(
        sa.insert(snapshots).values(**values, digest=snapshot_digest(bandit, version, seq, state))
    )
    newest = sa.select(snapshots.c.seq).where(own).order_by(snapshots.c.seq.desc()).limit(KEPT_SNAPSHOTS)
    kept = sa.select(newest.subquery().c.seq)
    connection.execute(sa.delete(snapshots).where(own & snapshots.c.seq.not_in(kept)))
    older = (snapshots.c.bandit == bandit) & (snapshots.c.version < version)
    connection.execute(sa.delete(snapshots).where(older))


def newest_snapshots(connection: Connection, bandit: int, version: int) -> Rows:
    """Read the snapshots of this version, newest first; before them any that are ahead of it."""
    query = (
        sa.select(snapshots)
        .where((snapshots.c.bandit == bandit) & (snapshots.c.version >= version))
        .order_by(snapshots.c.version.desc(), snapshots.c.seq.desc())
    )
    return connection.execute(query).all()


def forget_snapshot(connection: Connection, row: Row[Any]) -> None:
    """Delete this one, unless a sound one has taken its place."""
    place = sa.and_(*(snapshots.c[name] == getattr(row, name) for name in ("bandit", "version", "seq")))
    same = (snapshots.c.digest == row.digest) & (snapshots.c.time == row.time)
    connection.execute(sa.delete(snapshots).where(place & same))


def snapshot_digest(bandit: int, version: int, seq: int, state: bytes) -> bytes:
    """Tell a damaged state, and a sound one in another's place."""
    return hashlib.sha256(b"%d %d %d " % (bandit, version, seq) + state).digest()
