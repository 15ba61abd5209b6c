"""Typed clients of the service, for threads (`Client`) and for asyncio (`AsyncClient`). They need only httpx.

Retries never decide or reward twice: every decision is sent with a key (your own, or a random one), and the
same reward sent again changes nothing. So a request is tried again for as long as a restart of the service
takes (`patience`), and an application need not know of it.

Each request is described once, by a method of `Requests`; the two clients differ only in how they
send it.
"""

import asyncio
import functools
import logging
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack
from urllib.parse import quote, urlencode

import httpx
from numpy.typing import ArrayLike

from linmed.deadlines import Waiting
from linmed.question import CONFIDENCE, INTERVAL, Course, asks, in_json

__all__ = ["AsyncClient", "Client", "ServedDecision", "ServiceError"]

P = ParamSpec("P")
T = TypeVar("T")

Catalogue = Mapping[str, Any]
"""Items as the API has them, {"ids": [...], "features": [[...], ...]}, or each item's features by its id."""
OfArms = ArrayLike | Mapping[str, float]
"""A number for each arm, in their order or by their ids."""
REPORTING = 3600.0
"""Seconds to wait for a report: it may take long, and one whose caller leaves is called off."""
PREPARING = 300.0
"""Seconds to wait for a bandit that the service may have to load from a long log first."""


@dataclass(frozen=True, slots=True)
class ServedDecision:
    """A decision as the service answered it.

    >>> bandit = client.create("shown", dim=2)
    >>> decision = client.decide("shown", [[1.0, 0.0], [0.0, 1.0]], arm_ids=["tea", "coffee"])
    >>> decision.arm_id == ["tea", "coffee"][decision.arm], round(sum(decision.probabilities), 12)
    (True, 1.0)
    """

    id: str
    arm: int
    arm_id: str | None
    probability: float | None
    """None where `fallback` is true."""
    log_probability: float | None
    probabilities: tuple[float, ...] | None
    policy_version: int
    repeated: bool
    fallback: bool = False
    """Whether what was proposed from a catalogue was not accepted, and the best item known is played."""
    control: bool | None = None
    """Whether the control group's law drew the arm; None where there is no control group."""
    shadow: dict[str, float] | None = None
    """How probable the arm was to each shadow policy."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request before it is sent, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: dict[str, Any] | None = None
    slow: bool = False
    """Whether `read` waits for a disk, which nothing in an event loop should."""
    timeout: Any = httpx.USE_CLIENT_DEFAULT
    """Seconds to wait for the answer."""


class Requests:
    """What can be asked of the service.

    Examples are in the docstring of `Client`.
    """

    def create(
        self,
        name: str,
        dim: int | None = None,
        policy: Mapping[str, Any] | None = None,
        *,
        catalogue: Catalogue | None = None,
        map: str = "plain",
        features: Mapping[str, Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        log_arms: bool = True,
        control: float = 0.0,
        control_policy: str | int | Mapping[str, Any] = "uniform",
        shadow: Mapping[str, Mapping[str, Any]] | None = None,
        wait: float | str | timedelta | None = None,
        missing: float = 0.0,
        early: str = Waiting.early,
        late: str = Waiting.late,
    ) -> Call[dict[str, Any]]:
        """Create a bandit, or find it as it is described. `policy` as `Policy.to_dict()` gives it.

        `features`, as `Features.to_dict()` gives it, take the place of `dim` and `map`. The options from
        `control` on are those of `linmed.Agent`; policies among them as `Policy.to_dict()` gives them.
        """
        body: dict[str, Any] = {"name": name, "log_arms": log_arms, "control": control}
        body["control_policy"] = (
            control_policy if isinstance(control_policy, (str, int)) else dict(control_policy)
        )
        body |= {"missing": missing, "early": early, "late": late}
        body["wait"] = wait.total_seconds() if isinstance(wait, timedelta) else wait
        if shadow is not None:
            body["shadow"] = {one: dict(policy) for one, policy in shadow.items()}
        body |= {"dim": dim, "map": map} if features is None else {"features": dict(features)}
        if policy is not None:
            body["policy"] = dict(policy)
        if catalogue is not None:
            body["catalogue"] = _catalogue(catalogue)
        if reward_range is not None:
            body["reward_range"] = [float(bound) for bound in reward_range]
        return Call("POST", "/v1/bandits", _object, body, timeout=PREPARING)

    def bandits(self) -> Call[list[dict[str, Any]]]:
        """Every bandit in a line, by name."""
        return Call("GET", "/v1/bandits", _list)

    def bandit(self, name: str) -> Call[dict[str, Any]]:
        """Its settings."""
        return Call("GET", _path(name), _object)

    def change(self, /, name: str, **changes: Any) -> Call[dict[str, Any]]:
        """Change policy, catalogue, reward_range or archived."""
        if changes.get("catalogue") is not None:
            changes["catalogue"] = _catalogue(changes["catalogue"])
        return Call("PATCH", _path(name), _object, changes, timeout=PREPARING)

    def archive(self, name: str) -> Call[dict[str, Any]]:
        """No more decisions; the log stays, and late rewards are taken."""
        return Call("DELETE", _path(name), _object)

    def put_item(self, name: str, id: str, features: ArrayLike | Mapping[str, Any]) -> Call[dict[str, Any]]:
        """Add an item to the catalogue, or give it other features."""
        return Call("PUT", _path(name, "items", id), _object, {"features": _row(features)})

    def put_items(self, name: str, catalogue: Catalogue) -> Call[dict[str, Any]]:
        """Add items, or change their features; what is not named stays."""
        return Call("PUT", _path(name, "items"), _object, _catalogue(catalogue))

    def delete_items(self, name: str, ids: Iterable[str]) -> Call[dict[str, Any]]:
        """Take items out of the catalogue, all or none; what is out already is no mistake."""
        return Call("POST", _path(name, "items", "remove"), _object, {"ids": list(ids)})

    def catalogue(
        self, name: str, version: int | None = None, *, limit: int | None = None, after: str | None = None
    ) -> Call[dict[str, Any]]:
        """The items as they are now, or as a decision of `catalogue_version` saw them, at most 10,000.

        Where there are more, `next` of the answer is to be given as `after`, with the answer's `version`.
        """
        path = _path(name, "catalogue", *([] if version is None else [str(version)]))
        asked = {key: value for key, value in {"limit": limit, "after": after}.items() if value is not None}
        return Call("GET", f"{path}?{urlencode(asked)}" if asked else path, _object)

    def delete_item(self, name: str, id: str) -> Call[dict[str, Any]]:
        """Take an item out of the catalogue; decisions for it stay in the log."""
        return Call("DELETE", _path(name, "items", id), _object)

    def decide(
        self,
        name: str,
        arms: ArrayLike | None = None,
        *,
        arm_ids: Sequence[str] | None = None,
        context: ArrayLike | Mapping[str, Any] | None = None,
        key: str | None = None,
        values: OfArms | None = None,
        costs: OfArms | None = None,
    ) -> Call[ServedDecision]:
        """One decision among `arms` (K, d), or among the catalogue's.

        `values` are what a unit of each arm's reward is worth and `costs` what playing each costs, in their
        order or by their ids: see docs/costs.md.
        """
        body = _wanted(arms, arm_ids, context, key, values, costs)
        return Call("POST", _path(name, "decide"), lambda answer: _decision(answer.json()), body)

    def decide_batch(
        self,
        name: str,
        sets: Iterable[ArrayLike | None] | None = None,
        *,
        arm_ids: Iterable[Sequence[str] | None] | None = None,
        contexts: Iterable[ArrayLike | Mapping[str, Any] | None] | None = None,
        keys: Iterable[str | None] | None = None,
        values: Iterable[OfArms | None] | None = None,
        costs: Iterable[OfArms | None] | None = None,
    ) -> Call[list[ServedDecision]]:
        """Several decisions, all or none: one in each set of arms, or among the catalogue for each context.

        Whatever is given has one entry for each decision; None stands for what a decision does without.
        """
        given = {
            "sets": sets, "arm_ids": arm_ids, "contexts": contexts, "keys": keys,
            "values": values, "costs": costs,
        }  # fmt: skip
        columns = {what: list(each) for what, each in given.items() if each is not None}
        if len({len(each) for each in columns.values()}) != 1:
            told = ", ".join(f"{len(each)} {what}" for what, each in columns.items()) or "nothing"
            raise ValueError(f"decide_batch needs one entry for each decision in all it is given, got {told}")
        number = len(next(iter(columns.values())))
        every = [columns.get(what, [None] * number) for what in given]
        body = {"decisions": [_wanted(*one) for one in zip(*every, strict=True)]}
        return Call("POST", _path(name, "decide", "batch"), _decisions, body)

    def reward(
        self,
        name: str,
        decision: ServedDecision | str,
        reward: float,
        *,
        outcomes: Mapping[str, float] | None = None,
    ) -> Call[None]:
        """The reward of one decision; `outcomes` are further numbers by name, logged and not learned."""
        body = _reward(decision, reward)
        if outcomes is not None:
            body["outcomes"] = {one: float(value) for one, value in outcomes.items()}
        return Call("POST", _path(name, "reward"), _nothing, body)

    def reward_batch(self, name: str, pairs: Iterable[tuple[ServedDecision | str, float]]) -> Call[None]:
        """The rewards of several decisions, all or none."""
        body = {"rewards": [_reward(decision, reward) for decision, reward in pairs]}
        return Call("POST", _path(name, "reward", "batch"), _nothing, body)

    def decision(self, name: str, decision: ServedDecision | str) -> Call[dict[str, Any]]:
        """A decision as the log has it, with its reward."""
        return Call("GET", _path(name, "decisions", _identifier(decision)), _object)

    def statistics(self, name: str) -> Call[dict[str, Any]]:
        """Counts, shares and curves."""
        return Call("GET", _path(name, "statistics"), _object)

    def state(self, name: str) -> Call[dict[str, Any]]:
        """What the server has learned."""
        return Call("GET", _path(name, "state"), _object)

    @asks()
    def evaluate(
        self,
        name: str,
        targets: Sequence[Any] = ("uniform", "greedy"),
        estimators: Sequence[str] = ("ipw",),
        interval: str = INTERVAL,
        confidence: float = CONFIDENCE,
        reward_range: tuple[float, float] | None = None,
        **options: Unpack[Course],
    ) -> Call[dict[str, Any]]:
        """What would other policies have earned on the log so far? As `linmed.ope.evaluate` takes it."""
        given = {**options, "interval": interval, "confidence": confidence, "reward_range": reward_range}
        body: dict[str, Any] = {what: in_json(what, value) for what, value in given.items()}
        body |= {"targets": list(targets), "estimators": list(estimators)}
        return Call("POST", _path(name, "evaluate"), _object, body, timeout=REPORTING)

    def trend(
        self, name: str, *, missing: str | float = "stop", mature: float | timedelta | None = None
    ) -> Call[dict[str, Any]]:
        """Which policy is better, how sure that is, and whether the log is sound: what the page shows."""
        body = {"missing": missing, "mature": in_json("mature", mature)}
        return Call("POST", _path(name, "trend"), _object, body, timeout=REPORTING)

    def verdict(
        self,
        name: str,
        arms: ArrayLike | None = None,
        *,
        arm_ids: Sequence[str] | None = None,
        context: ArrayLike | Mapping[str, Any] | None = None,
        delta: float = 0.05,
        epsilon: float = 0.0,
    ) -> Call[dict[str, Any]]:
        """Which items of the catalogue, or which of these arms (K, d), can still be the best?"""
        if arms is None and arm_ids is None and context is None:
            path = f"{_path(name, 'verdict')}?delta={delta}&epsilon={epsilon}"
            return Call("GET", path, _object, timeout=REPORTING)
        body = {**_wanted(arms, arm_ids, context, None), "delta": delta, "epsilon": epsilon}
        body.pop("key")
        return Call("POST", _path(name, "verdict"), _object, body, timeout=REPORTING)

    def drift(self, name: str) -> Call[dict[str, Any]]:
        """Has the world changed, and when? For a policy that forgets."""
        return Call("GET", _path(name, "drift"), _object)

    def arms(self, name: str) -> Call[dict[str, Any]]:
        """The catalogue with every item's estimate and interval."""
        return Call("GET", _path(name, "arms"), _object)

    def export(self, name: str, path: str | Path) -> Call[None]:
        """Write the log to a Parquet file that `linmed.ope.DecisionLog.open` reads."""

        def write(answer: httpx.Response) -> None:
            Path(path).write_bytes(answer.content)

        return Call("GET", _path(name, "log"), write, slow=True, timeout=REPORTING)


def _path(bandit: str, *rest: str) -> str:
    return "/".join(["/v1/bandits", *(quote(part, safe="") for part in (bandit, *rest))])


def _catalogue(catalogue: Catalogue) -> dict[str, Any]:
    """In the API's form, which the names `ids` and `features` tell; they are never two items' own."""
    if not isinstance(catalogue, Mapping):
        form = '{"ids": ["a", "b"], "features": [[1.0, 0.0], [0.0, 1.0]]}'
        raise TypeError(f"catalogue must be a mapping such as {form}, got {type(catalogue).__name__}")
    if set(catalogue) == {"ids", "features"}:
        return {"ids": list(catalogue["ids"]), "features": [_row(row) for row in catalogue["features"]]}
    return {"ids": list(catalogue), "features": [_row(row) for row in catalogue.values()]}


def _row(value: Any) -> Any:
    """Numbers as a list, fields as an object."""
    return dict(value) if isinstance(value, Mapping) else _numbers(value)


def _numbers(value: ArrayLike) -> Any:
    """Arrays as lists."""
    import numpy as np

    return np.asarray(value, dtype=np.float64).tolist()


def _wanted(
    arms: ArrayLike | None,
    arm_ids: Sequence[str] | None = None,
    context: ArrayLike | Mapping[str, Any] | None = None,
    key: str | None = None,
    values: OfArms | None = None,
    costs: OfArms | None = None,
) -> dict[str, Any]:
    body: dict[str, Any] = {"key": uuid.uuid4().hex if key is None else key}
    if arms is not None:
        body["arms"] = _numbers(arms)
    if arm_ids is not None:
        body["arm_ids"] = list(arm_ids)
    if context is not None:
        body["context"] = _row(context)
    for name, each in (("values", values), ("costs", costs)):
        if each is not None:
            body[name] = _row(each)
    return body


def _identifier(decision: ServedDecision | str) -> str:
    return decision if isinstance(decision, str) else decision.id


def _reward(decision: ServedDecision | str, reward: float) -> dict[str, Any]:
    return {"decision_id": _identifier(decision), "reward": float(reward)}


def _object(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()
    return found


def _list(answer: httpx.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.json()
    return found


def _nothing(answer: httpx.Response) -> None:
    """That it succeeded is all there is to know."""


def _decisions(answer: httpx.Response) -> list[ServedDecision]:
    return [_decision(one) for one in answer.json()["decisions"]]


def _decision(answer: dict[str, Any]) -> ServedDecision:
    every = answer["probabilities"]
    return ServedDecision(
        answer["decision_id"],
        answer["arm"],
        answer["arm_id"],
        answer["probability"],
        answer["log_probability"],
        None if every is None else tuple(every),
        answer["policy_version"],
        answer["repeated"],
        answer["fallback"],
        answer["control"],
        answer["shadow"],
    )


logger = logging.getLogger("linmed.client")

RETRIED = frozenset({429, 502, 503, 504})
FINAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""What is wrong with a request itself, which no other attempt would mend."""
LONGEST_PAUSE = 2.0
"""Seconds: a service that is back is found within them."""
QUIET = 1.0
"""Seconds of trying again after which somebody is told."""


class ServiceError(RuntimeError):
    """The service refused: its status and its message.

    >>> with Client(url) as client:
    ...     try:
    ...         client.bandit("nobody")
    ...     except ServiceError as error:
    ...         print(error.status, error.field)
    404 None
    """

    def __init__(self, status: int, message: str, field: str | None = None):
        super().__init__(f"{status}: {message}")
        self.status, self.message, self.field = status, message, field


class _Sender:
    """What both clients share: settings, and what to do with an answer."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        patience: float = 30.0,
        timeout: float = 10.0,
        backoff: float = 0.1,
    ):
        """What gets no answer, or a 429, 502, 503 or 504, is sent again for `patience` seconds.

        0 sends it once. The n-th pause is drawn from [0, backoff·2ⁿ], at most 2 s, so that clients of a
        service that is back do not all come at once; what the service asks for (Retry-After) is added.
        """
        self.url, self.patience, self.backoff = url, patience, backoff
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}


class _Attempts:
    """One request, and for how long it has been tried."""

    def __init__(self, sender: _Sender):
        self.sender, self.begun = sender, time.monotonic()
        self.longest, self.told = sender.backoff, False

    def pause(self, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds until the next one, or None if this was the last or its answer is final."""
        asked = ""
        if isinstance(outcome, httpx.Response):
            if outcome.status_code not in RETRIED:
                return None
            asked = outcome.headers.get("Retry-After", "")
        elif isinstance(outcome, FINAL):
            return None
        pause = random.uniform(0.0, self.longest)
        pause += float(asked) if asked.isdecimal() else 0.0
        spent = time.monotonic() - self.begun
        if spent + pause > self.sender.patience:
            return None
        if spent + pause > QUIET and not self.told:
            why = outcome.status_code if isinstance(outcome, httpx.Response) else repr(outcome)
            text = "%s does not serve now (%s): trying again for up to %g s"
            logger.warning(text, self.sender.url, why, self.sender.patience)
            self.told = True
        self.longest = min(2 * self.longest, LONGEST_PAUSE)
        return pause


def _granted(outcome: httpx.Response | httpx.TransportError) -> httpx.Response:
    """The answer, if it is a good one."""
    if isinstance(outcome, httpx.TransportError):
        raise outcome
    if outcome.is_success:
        return outcome
    try:
        error = outcome.json()["error"]
        raise ServiceError(outcome.status_code, error["message"], error.get("field"))
    except (ValueError, KeyError, TypeError):
        raise ServiceError(outcome.status_code, outcome.text[:200]) from None


def _blocking(describe: Callable[Concatenate[Any, P], Call[T]]) -> Callable[Concatenate["Client", P], T]:
    """A method that sends what `describe` describes."""

    @functools.wraps(describe)
    def send(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(describe(self, *args, **kwargs))

    return send


def _awaited(
    describe: Callable[Concatenate[Any, P], Call[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """The same for asyncio."""

    @functools.wraps(describe)
    async def send(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(describe(self, *args, **kwargs))

    return send


class Client(_Sender):
    """Blocking; safe to share between threads.

    `url` is where the service is (here "http://127.0.0.1:8000" or the like), `token` the one it asks for, if
    any; an answer is waited for `timeout` seconds. What gets no answer, or a 429, 502, 503 or 504, is sent
    again for `patience` seconds, after pauses that begin at `backoff`.

    >>> with Client(url) as client:
    ...     bandit = client.create("hats", dim=2, policy={"policy": "LinMED", "sigma": 0.5})
    ...     decision = client.decide("hats", [[1.0, 0.0], [0.6, 0.8]])
    ...     client.reward("hats", decision, 1.0)
    ...     client.state("hats")["count"]
    1

    Items of a catalogue come and go; the same key gives the same decision:

    >>> client = Client(url)
    >>> bandit = client.create("shop", dim=2, catalogue={"tea": [1, 0], "coffee": [0, 1]})
    >>> answers = client.put_items("shop", {"milk": [0.6, 0.8]}), client.put_item("shop", "water", [1, 1])
    >>> answers = client.delete_item("shop", "water"), client.delete_items("shop", ["coffee"])
    >>> client.catalogue("shop")["ids"], [row["id"] for row in client.arms("shop")["arms"]]
    (['tea', 'milk'], ['tea', 'milk'])
    >>> first, again = (client.decide("shop", arm_ids=["tea", "milk"], key="visit 17") for _ in range(2))
    >>> (again.id == first.id, again.repeated), client.decision("shop", first)["arm"] == first.arm
    ((True, True), True)
    >>> client.reward_batch("shop", [(one, 1.0) for one in client.decide_batch("shop", keys=["a", "b"])])
    >>> client.statistics("shop")["rewards"], client.verdict("shop")["decided"]
    (2, False)
    >>> client.trend("shop", missing="skip")["judged"]
    2

    The log judges other policies, here or, as a file, with `linmed.ope`:

    >>> import tempfile
    >>> bandit = client.create("judged", dim=1, reward_range=(0, 1))
    >>> for decision in client.decide_batch("judged", [[[1.0], [0.5]]] * 20):
    ...     client.reward("judged", decision, 1.0)
    >>> [(row["target"], row["estimate"]) for row in client.evaluate("judged", ["logged"])["results"]]
    [('logged', 1.0)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     client.export("judged", f"{folder}/log.parquet")

    A change of policy learns again from the whole log; an archived bandit takes no more decisions:

    >>> client.change("shop", policy={"policy": "LinMED", "sigma": 0.3})["policy_version"]
    2
    >>> client.archive("shop")["archived"], client.bandit("shop")["items"], client.bandits()[-1]["archived"]
    (True, 2, True)
    >>> client.close()
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", **options: Any):
        super().__init__(url, **options)
        self._http = httpx.Client(**self._options)

    create = _blocking(Requests.create)
    bandits = _blocking(Requests.bandits)
    bandit = _blocking(Requests.bandit)
    change = _blocking(Requests.change)
    archive = _blocking(Requests.archive)
    put_item = _blocking(Requests.put_item)
    delete_item = _blocking(Requests.delete_item)
    put_items = _blocking(Requests.put_items)
    delete_items = _blocking(Requests.delete_items)
    catalogue = _blocking(Requests.catalogue)
    decide = _blocking(Requests.decide)
    decide_batch = _blocking(Requests.decide_batch)
    reward = _blocking(Requests.reward)
    reward_batch = _blocking(Requests.reward_batch)
    decision = _blocking(Requests.decision)
    statistics = _blocking(Requests.statistics)
    state = _blocking(Requests.state)
    evaluate = _blocking(Requests.evaluate)
    trend = _blocking(Requests.trend)
    arms = _blocking(Requests.arms)
    verdict = _blocking(Requests.verdict)
    drift = _blocking(Requests.drift)
    export = _blocking(Requests.export)

    def _send(self, call: Call[T]) -> T:
        attempts = _Attempts(self)
        while True:
            try:
                outcome: Any = self._http.request(
                    call.method, call.path, json=call.body, timeout=call.timeout
                )
            except httpx.TransportError as error:
                outcome = error
            pause = attempts.pause(outcome)
            if pause is None:
                return call.read(_granted(outcome))
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections, as leaving `with Client(url) as client:` does."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Sender):
    """For asyncio.

    Parameters and methods are those of `Client`; each answer is awaited.

    >>> async def visit():
    ...     async with AsyncClient(url) as client:
    ...         await client.create("caps", dim=2)
    ...         decision = await client.decide("caps", [[1.0, 0.0], [0.6, 0.8]])
    ...         await client.reward("caps", decision, 1.0)
    ...         return decision.probability > 0
    >>> asyncio.run(visit())
    True
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", **options: Any):
        super().__init__(url, **options)
        self._http = httpx.AsyncClient(**self._options)

    create = _awaited(Requests.create)
    bandits = _awaited(Requests.bandits)
    bandit = _awaited(Requests.bandit)
    change = _awaited(Requests.change)
    archive = _awaited(Requests.archive)
    put_item = _awaited(Requests.put_item)
    delete_item = _awaited(Requests.delete_item)
    put_items = _awaited(Requests.put_items)
    delete_items = _awaited(Requests.delete_items)
    catalogue = _awaited(Requests.catalogue)
    decide = _awaited(Requests.decide)
    decide_batch = _awaited(Requests.decide_batch)
    reward = _awaited(Requests.reward)
    reward_batch = _awaited(Requests.reward_batch)
    decision = _awaited(Requests.decision)
    statistics = _awaited(Requests.statistics)
    state = _awaited(Requests.state)
    evaluate = _awaited(Requests.evaluate)
    trend = _awaited(Requests.trend)
    arms = _awaited(Requests.arms)
    verdict = _awaited(Requests.verdict)
    drift = _awaited(Requests.drift)
    export = _awaited(Requests.export)

    async def _send(self, call: Call[T]) -> T:
        attempts = _Attempts(self)
        while True:
            try:
                outcome: Any = await self._http.request(
                    call.method, call.path, json=call.body, timeout=call.timeout
                )
            except httpx.TransportError as error:
                outcome = error
            pause = attempts.pause(outcome)
            if pause is None:
                answer = _granted(outcome)
                return await asyncio.to_thread(call.read, answer) if call.slow else call.read(answer)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
