"""What is written and shown when a bandit is made or changed: its versions, its catalogue, its settings."""

import json
from typing import Any

from sqlalchemy.engine import Connection, Row

from linmed.features import Number
from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.encoding import Joining, as_catalogue, as_features
from linmed.serve.errors import INPUT, Refused, field_of
from linmed.serve.item_table import MOST_AT_ONCE, Catalogue
from linmed.serve.items import Version, page
from linmed.serve.schemas import LISTED, CatalogueBody, NewBandit
from linmed.serve.settings import LARGEST
from linmed.validation import BadValue


def bandit_view(connection: Connection, name: str) -> dict[str, Any]:
    """A bandit as the API shows it."""
    row = store.the_bandit(connection, name)
    return {
        "name": row.name,
        "dim": row.dim,
        "policy": json.loads(row.config),
        "policy_name": row.policy_name,
        "policy_version": row.version,
        "catalogue": listed(connection, row),
        "catalogue_version": row.catalogue,
        "items": row.item_count or 0,
        "features": None,
        **json.loads(row.settings),
        "archived": row.archived,
        "created": row.created,
    }


def listed(connection: Connection, row: Row[Any], most: int = LISTED) -> dict[str, Any] | None:
    """The catalogue of the bandit of this row, if it has one of at most so many items."""
    if row.catalogue is None or row.item_count > most:
        return None
    found = page(connection, row.id, row.catalogue, most)
    return {"ids": found.ids, "features": found.features}


def new_version(connection: Connection, row: Row[Any], policy: Policy) -> dict[str, Any]:
    """Write the next version of a bandit's policy; what changes in its row."""
    if store.origin(connection, row.id) is not None:
        text = (
            f"policy: bandit {row.name!r} was imported from an agent's file; the rewards that the agent had "
            "learned from are not in the log, so no other policy could learn from them"
        )
        raise Refused("conflict", text, "policy")
    for values in store.reward_values(connection, row.id):
        try:
            policy.check_rewards(values)
        except BadValue as error:
            text = f"policy: {policy.name} cannot learn from the rewards that the log has ({error})"
            raise Refused("conflict", text, "policy") from None
    store.add_policy(connection, row.id, row.version + 1, policy)
    return {"version": row.version + 1}


def new_catalogue(
    connection: Connection, row: Row[Any], version: Version, already: bool = False
) -> dict[str, Any]:
    """What changes in a bandit's row with a version of its catalogue that has been written.

    A policy that works for one set of arms begins anew with another: its next version, unless there is one
    `already`.
    """
    if version.catalogue == row.catalogue:
        return {}
    policy = store.policy_of(row)
    anew = not policy.learns_from_arms and not already
    if anew and version.item_count > MOST_AT_ONCE:
        text = f"{policy.name} decides among one set of arms, of at most {MOST_AT_ONCE} items"
        raise Refused("invalid", f"ids: {text}, this would have {version.item_count}", "ids")
    return {**version._asdict(), **(new_version(connection, row, policy) if anew else {})}


def try_bandit(dim: int, policy: Policy, catalogue: Catalogue | None) -> None:
    """Refuse what could not serve: one decision and one reward are tried on a state of no consequence."""
    try:
        Bandit(id=0, name="", dim=dim, policy=policy, catalogue=catalogue).make_ready()
    except INPUT as error:
        field = "catalogue" if field_of(error) in ("catalogue", "arms") else "policy"
        raise BadValue(field, f"policy: {str(error).removeprefix('policy: ')}") from None


def catalogue_of(given: CatalogueBody | None, joining: Joining) -> Catalogue | None:
    """The catalogue of a request, checked."""
    return None if given is None else as_catalogue(given.ids, given.features, joining)


def joining_of(new: NewBandit) -> Joining:
    """How arms are made by a request for a new bandit: by `features`, or by `map` and `dim`."""
    if new.features is None:
        if new.dim is None:
            raise BadValue("dim", "dim is missing")
        return Joining(new.dim, new.map)
    features = as_features(new.features)
    if "map" in new.model_fields_set:
        raise BadValue("map", "map: goes with dim; here features say how context and items are joined")
    if new.dim not in (None, features.dim):
        raise BadValue("dim", f"dim must be {features.dim} by these features, or be left out, got {new.dim}")
    return Joining(features.dim, None, features)


def check_models(policy: Policy, joining: Joining) -> None:
    """Refuse features whose first number could not be that of an item's model."""
    features = joining.features
    if not policy.capabilities.per_item or features is None:
        return
    first = features.item[0] if features.item else None
    all_meet = features.interactions in ("outer", "shrunk")
    if all_meet or not isinstance(first, Number) or first.scale is not None:
        wanted = "item must begin with Number('model', scale=None), and interactions must be 'plain' or pairs"
        text = f"features: {type(policy).__name__} reads the number of an item's model first: {wanted}"
        raise BadValue("features", text)


def settings_of(new: NewBandit, joining: Joining) -> dict[str, Any]:
    """What is kept of a request for a new bandit beside dimension, policy and catalogue."""
    features = joining.features
    made = {"map": joining.map} if features is None else {"map": None, "features": features.to_dict()}
    settings: dict[str, Any] = {**made, "reward_range": new.reward_range, "log_arms": new.log_arms}
    return settings


def check_range(reward_range: list[float] | None) -> None:
    """Lowest < highest."""
    if reward_range is not None and not -LARGEST <= reward_range[0] < reward_range[1] <= LARGEST:
        text = (
            f"reward_range must be [lowest, highest], such as [0, 1], within ±{LARGEST:g}, got {reward_range}"
        )
        raise BadValue("reward_range", text)
