"""What an agent's file holds: all that `Agent.load` needs to go on where `Agent.save` stood."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linmed import streams, validation
from linmed.catalogue_sampler import Coreset
from linmed.control_group import ControlledDecider, make_decider, restored
from linmed.core import core
from linmed.deadlines import Deadlines
from linmed.decider import as_bytes
from linmed.features import Index
from linmed.insight.assumptions import Repeats
from linmed.item_encoder import ItemEncoder
from linmed.lists import Lists
from linmed.policies import Policy

FORMAT = 3
"""Version of the file."""
REMEMBERED = 16
"""How many earlier runs are kept, by whose ids a reward that comes twice is recognised."""


def to_arrays(agent: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Describe an agent as JSON and arrays."""
    with agent._lock:
        meta = {
            "format": FORMAT,
            "policy": agent.policy.to_dict(),
            "dim": agent.dim,
            "max_pending": agent.max_pending,
            "log_arms": agent.log_arms,
            "dropped": agent.dropped,
            **agent._decider.noise.to_dict(),
            "run": agent._run,
            "earlier": list(agent._earlier),
            "decisions": agent._decisions,
            "pending": list(agent._pending),
            "moments": list(agent._moments.values()),
            "consumed": dict(agent._consumed),
        }
        arrays: dict[str, Any] = {}
        if agent._deadlines is not None:
            meta["deadlines"] = agent._deadlines.to_dict()
            kept = b"".join(row for row, _ in agent._deadlines.expired.values())
            arrays["expired"] = np.frombuffer(kept).reshape(-1, agent.dim)
        if isinstance(agent._decider, ControlledDecider):
            meta["groups"], of_groups = agent._decider.to_dict()
            arrays.update(of_groups)
        offered: dict[str, Any] = {}
        encoder, sampler = agent._decider.encoder, agent._decider.sampler
        # Before the catalogue, in which others may put items meanwhile: it has all items of the coreset.
        if sampler is not None:
            found = () if sampler.found is None else (*sampler.earlier, sampler.found)
            meta["coresets"] = [one.to_dict() for one in found]
        if encoder is not None:
            meta["encoder"], offered = encoder.to_dict()
        arrays.update({f"state_{name}": array for name, array in agent.state.copy().arrays().items()})
        arrays["pending"] = np.frombuffer(b"".join(agent._pending.values())).reshape(-1, agent.dim)
        arrays.update({} if agent._repeats is None else agent._repeats.to_dict())
        meta["lists"], listed = agent._lists.to_dict()
        arrays.update(listed)
    arrays.update({f"catalogue_{name}": array for name, array in offered.items()})
    return meta, arrays


def from_arrays(
    make: Callable[..., Any],
    meta: Mapping[str, Any],
    arrays: dict[str, Any],
    seed: int | None,
    index: Index | None,
    log_arms: bool,
) -> Any:
    """Make the agent that `to_arrays` described; `make` is its class. What is damaged raises some error."""
    policy = Policy.from_dict(meta["policy"])
    # Without names of items, of which some may have left the catalogue.
    agent = make(policy.among(()), meta["dim"], max_pending=meta["max_pending"], log_arms=log_arms)
    encoder = None
    if "encoder" in meta:
        offered = [name for name in arrays if name.startswith("catalogue_")]
        own = {name.removeprefix("catalogue_"): arrays.pop(name) for name in offered}
        encoder = ItemEncoder.from_dict(meta["encoder"], own, policy)
        if encoder.dim != agent.dim:
            raise ValueError(f"a map of {encoder.dim} features for dim={agent.dim}")
    coresets = [Coreset.from_dict(one) for one in meta.get("coresets", ())]
    groups = restored(meta["groups"], arrays, agent.dim) if "groups" in meta else None
    agent._decider = make_decider(
        policy, agent.dim, streams.bits(seed, "agent"), encoder, index, coresets, groups
    )
    pending = validation.for_kernels(arrays.pop("pending"))
    if pending.shape != (len(meta["pending"]), agent.dim) or not core.all_within(pending, validation.LARGEST):
        raise ValueError(f"pending decisions of shape {pending.shape}")
    expired = [*map(as_bytes, arrays.pop("expired", ()))]
    listed = validation.floats("lists", arrays.pop("lists", np.empty((0, agent.dim))))
    agent._lists = Lists.from_dict(meta.get("lists", ()), listed, policy)
    repeats = Repeats.from_dict(arrays, agent.dim)
    if agent._watch is not None:
        agent._watch.repeats = repeats
    agent.state.restore({name.removeprefix("state_"): array for name, array in arrays.items()})
    agent.dropped = validation.whole("dropped", meta["dropped"], at_least=0)
    agent._decisions = validation.whole("decisions", meta["decisions"], at_least=0)
    runs = [*meta.get("earlier", ()), (meta["run"], agent._decisions)]
    agent._earlier = [(validation.text("run", run), validation.whole("made", n, 0)) for run, n in runs]
    agent._earlier = agent._earlier[-REMEMBERED:]
    if seed is None:
        agent._decider.noise.restore(meta["stream"], meta["used"])
    else:
        agent._decider.draw_from(streams.bits(seed, "agent", agent._decisions, agent.count))
    agent._pending = dict(zip(meta["pending"], map(as_bytes, pending), strict=True))
    for name, taken in meta.get("consumed", {}).items():
        agent._consumed[name] = validation.between("consumed", taken, 0.0, validation.LARGEST)
    if meta["moments"]:
        moments = map(float, meta["moments"])
        agent._moments = dict(zip(meta["pending"], moments, strict=True))
    if "deadlines" in meta:
        agent._deadlines = Deadlines.from_dict(
            meta["deadlines"], expired, {**agent._moments, **agent._lists.moments()}
        )
    agent._timed = agent._is_timed()
    return agent
