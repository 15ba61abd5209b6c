"""In what two descriptions of a bandit differ, in words: why a `create` is refused for a name that is taken.

A description is {dim, policy, map, features, reward_range, log_arms, catalogue: {ids, features} | None}; of a
catalogue that is too large to be listed it has {items}, their number. *There* is what the service has, *here*
what the request says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

SHOWN = 5
"""Items of a kind that are named; more are counted."""

Description = Mapping[str, Any]


def differences(there: Description, here: Description) -> list[str]:
    """One sentence for each difference; none if they describe the same bandit."""
    found = [_values("dim", there["dim"], here["dim"])]
    found += _policies(there["policy"], here["policy"])
    same = there.get("features") == here.get("features")
    found.append("" if same else "features are others there than here")
    found += [_values(name, there[name], here[name]) for name in ("map", "reward_range", "log_arms")]
    found.append(_catalogues(there["catalogue"], here["catalogue"]))
    return [one for one in found if one]


def _values(name: str, there: Any, here: Any) -> str:
    return "" if there == here else f"{name} is {_shown(there)} there and {_shown(here)} here"


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)


def _policies(there: Description, here: Description) -> list[str]:
    if there["policy"] != here["policy"]:
        return [_values("policy", there["policy"], here["policy"])]
    names = dict.fromkeys([*there, *here])
    return [_values(f"policy.{name}", there.get(name), here.get(name)) for name in names]


def _catalogues(there: Description | None, here: Description | None) -> str:
    if there is None or here is None:
        return "" if there is here else f"catalogue is given only {'here' if there is None else 'there'}"
    if "items" in there:
        return _values("number of items", there["items"], len(here["ids"]))
    old, new = (dict(zip(one["ids"], one["features"], strict=True)) for one in (there, here))
    said = [
        _items([name for name in old if name not in new], "missing"),
        _items([name for name in new if name not in old], "new"),
    ]
    items = f"catalogue has other items ({', '.join(filter(None, said))})" if any(said) else ""
    other = _items([name for name in new if name in old and list(old[name]) != list(new[name])], "")
    features = f"catalogue has other features of {other}" if other else ""
    order = "" if items or list(old) == list(new) else "catalogue has its items in another order"
    return "; ".join(filter(None, [items, features, order]))


def _items(names: Sequence[str], state: str) -> str:
    """`a and b are missing`, or the names alone where there is no state; empty for none."""
    if not names:
        return ""
    named, rest = list(names[:SHOWN]), len(names) - SHOWN
    if rest > 0:
        named.append(f"{rest} more")
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{listed} {'is' if len(named) == 1 else 'are'} {state}" if state else listed
