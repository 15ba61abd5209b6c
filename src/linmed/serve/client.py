"""Typed clients of the service, for threads (`Client`) and for asyncio (`AsyncClient`). They need only httpx.

Retries never decide or reward twice: every decision is sent with a key (your own, or a random one), and the
same reward sent again changes nothing.

Each request is described once, by a method of `Requests`; the two clients differ only in how they send it.
"""

import asyncio
import functools
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx
from numpy.typing import ArrayLike

P = ParamSpec("P")
T = TypeVar("T")
RETRIED = frozenset({429, 502, 503, 504})
PREPARING = 300.0
"""Seconds to wait for a bandit whose policy the service may have to compile first."""


class ServiceError(RuntimeError):
    """The service refused: its status and its message."""

    def __init__(self, status: int, message: str, field: str | None = None):
        super().__init__(f"{status}: {message}")
        self.status, self.message, self.field = status, message, field


@dataclass(frozen=True, slots=True)
class ServedDecision:
    """A decision as the service answered it."""

    id: str
    arm: int
    arm_id: str | None
    probability: float
    log_probability: float
    probabilities: tuple[float, ...] | None
    policy_version: int
    repeated: bool


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
    """What can be asked of the service."""

    def create(
        self,
        name: str,
        dim: int,
        policy: Mapping[str, Any] | None = None,
        *,
        catalogue: Mapping[str, ArrayLike] | None = None,
        map: str = "plain",
        reward_range: tuple[float, float] | None = None,
        log_arms: bool = True,
    ) -> Call[dict[str, Any]]:
        """Create a bandit, or find it as it is described. `policy` as `Policy.to_dict()` gives it."""
        body: dict[str, Any] = {"name": name, "dim": dim, "map": map, "log_arms": log_arms}
        if policy is not None:
            body["policy"] = dict(policy)
        if catalogue is not None:
            body["catalogue"] = _catalogue(catalogue)
        if reward_range is not None:
            body["reward_range"] = [float(bound) for bound in reward_range]
        return Call("POST", "/v1/bandits", _object, body, timeout=PREPARING)

    def bandit(self, name: str) -> Call[dict[str, Any]]:
        """Its settings."""
        return Call("GET", f"/v1/bandits/{name}", _object)

    def change(self, /, name: str, **changes: Any) -> Call[dict[str, Any]]:
        """Change policy, catalogue, reward_range or archived."""
        if changes.get("catalogue") is not None:
            changes["catalogue"] = _catalogue(changes["catalogue"])
        return Call("PATCH", f"/v1/bandits/{name}", _object, changes, timeout=PREPARING)

    def decide(
        self,
        name: str,
        arms: ArrayLike | None = None,
        *,
        arm_ids: Sequence[str] | None = None,
        context: ArrayLike | None = None,
        key: str | None = None,
    ) -> Call[ServedDecision]:
        """One decision among `arms` (K, d), or among the catalogue's."""
        body = _wanted(arms, arm_ids, context, key)
        return Call("POST", f"/v1/bandits/{name}/decide", lambda answer: _decision(answer.json()), body)

    def decide_batch(self, name: str, sets: Iterable[ArrayLike]) -> Call[list[ServedDecision]]:
        """One decision in each set of arms."""
        body = {"decisions": [_wanted(arms) for arms in sets]}
        return Call("POST", f"/v1/bandits/{name}/decide/batch", _decisions, body)

    def reward(self, name: str, decision: ServedDecision | str, reward: float) -> Call[None]:
        """The reward of one decision."""
        return Call("POST", f"/v1/bandits/{name}/reward", _nothing, _reward(decision, reward))

    def reward_batch(self, name: str, pairs: Iterable[tuple[ServedDecision | str, float]]) -> Call[None]:
        """The rewards of several decisions, all or none."""
        body = {"rewards": [_reward(decision, reward) for decision, reward in pairs]}
        return Call("POST", f"/v1/bandits/{name}/reward/batch", _nothing, body)

    def decision(self, name: str, decision: ServedDecision | str) -> Call[dict[str, Any]]:
        """A decision as the log has it, with its reward."""
        return Call("GET", f"/v1/bandits/{name}/decisions/{_identifier(decision)}", _object)

    def statistics(self, name: str) -> Call[dict[str, Any]]:
        """Counts, shares and curves."""
        return Call("GET", f"/v1/bandits/{name}/statistics", _object)

    def state(self, name: str) -> Call[dict[str, Any]]:
        """What the server has learned."""
        return Call("GET", f"/v1/bandits/{name}/state", _object)

    def evaluate(
        self,
        name: str,
        targets: Sequence[Any] = ("uniform", "greedy"),
        estimators: Sequence[str] = ("ipw",),
        interval: str = "betting",
        confidence: float = 0.95,
        reward_range: tuple[float, float] | None = None,
        *,
        missing: str | float = "stop",
        mature: float | timedelta | None = None,
        drift: bool | None = None,
        smallest_probability: float | None = None,
    ) -> Call[dict[str, Any]]:
        """What would other policies have earned on the log so far? As `linmed.ope.evaluate` takes it."""
        body: dict[str, Any] = {"targets": list(targets), "estimators": list(estimators)}
        body |= {"interval": interval, "confidence": confidence, "missing": missing, "drift": drift}
        body["reward_range"] = None if reward_range is None else [float(bound) for bound in reward_range]
        body["mature"] = mature.total_seconds() if isinstance(mature, timedelta) else mature
        body["smallest_probability"] = smallest_probability
        return Call("POST", f"/v1/bandits/{name}/evaluate", _object, body)

    def export(self, name: str, path: str | Path) -> Call[None]:
        """Write the log to a Parquet file that `linmed.ope.DecisionLog.open` reads."""

        def write(answer: httpx.Response) -> None:
            Path(path).write_bytes(answer.content)

        return Call("GET", f"/v1/bandits/{name}/log", write, slow=True)


def _catalogue(catalogue: Mapping[str, ArrayLike]) -> dict[str, Any]:
    return {"ids": list(catalogue), "features": [_numbers(row) for row in catalogue.values()]}


def _numbers(value: ArrayLike) -> Any:
    """Arrays as lists."""
    import numpy as np

    return np.asarray(value, dtype=np.float64).tolist()


def _wanted(
    arms: ArrayLike | None,
    arm_ids: Sequence[str] | None = None,
    context: ArrayLike | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    body: dict[str, Any] = {"key": key or uuid.uuid4().hex}
    if arms is not None:
        body["arms"] = _numbers(arms)
    if arm_ids is not None:
        body["arm_ids"] = list(arm_ids)
    if context is not None:
        body["context"] = _numbers(context)
    return body


def _identifier(decision: ServedDecision | str) -> str:
    return decision if isinstance(decision, str) else decision.id


def _reward(decision: ServedDecision | str, reward: float) -> dict[str, Any]:
    return {"decision_id": _identifier(decision), "reward": float(reward)}


def _object(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()
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
    )


class _Sender:
    """What both clients share: settings, and what to do with an answer."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        attempts: int = 5,
        timeout: float = 10.0,
        backoff: float = 0.1,
    ):
        """`attempts` in all, the n-th pause drawn from [0, backoff·2ⁿ], or what the service asks for."""
        self.attempts, self.backoff = max(1, attempts), backoff
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}

    def _pause(self, attempt: int, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds until the next attempt, or None if this was the last or its answer is final."""
        asked = ""
        if isinstance(outcome, httpx.Response):
            if outcome.status_code not in RETRIED:
                return None
            asked = outcome.headers.get("Retry-After", "")
        if attempt + 1 >= self.attempts:
            return None
        drawn = random.uniform(0.0, self.backoff * 2**attempt)
        return max(drawn, float(asked)) if asked.isdigit() else drawn


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
    """Blocking; safe to share between threads."""

    def __init__(self, url: str = "http://127.0.0.1:8000", **options: Any):
        super().__init__(url, **options)
        self._http = httpx.Client(**self._options)

    create = _blocking(Requests.create)
    bandit = _blocking(Requests.bandit)
    change = _blocking(Requests.change)
    decide = _blocking(Requests.decide)
    decide_batch = _blocking(Requests.decide_batch)
    reward = _blocking(Requests.reward)
    reward_batch = _blocking(Requests.reward_batch)
    decision = _blocking(Requests.decision)
    statistics = _blocking(Requests.statistics)
    state = _blocking(Requests.state)
    evaluate = _blocking(Requests.evaluate)
    export = _blocking(Requests.export)

    def _send(self, call: Call[T]) -> T:
        attempt = 0
        while True:
            try:
                outcome: Any = self._http.request(
                    call.method, call.path, json=call.body, timeout=call.timeout
                )
            except httpx.TransportError as error:
                outcome = error
            pause = self._pause(attempt, outcome)
            if pause is None:
                return call.read(_granted(outcome))
            time.sleep(pause)
            attempt += 1

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Sender):
    """For asyncio."""

    def __init__(self, url: str = "http://127.0.0.1:8000", **options: Any):
        super().__init__(url, **options)
        self._http = httpx.AsyncClient(**self._options)

    create = _awaited(Requests.create)
    bandit = _awaited(Requests.bandit)
    change = _awaited(Requests.change)
    decide = _awaited(Requests.decide)
    decide_batch = _awaited(Requests.decide_batch)
    reward = _awaited(Requests.reward)
    reward_batch = _awaited(Requests.reward_batch)
    decision = _awaited(Requests.decision)
    statistics = _awaited(Requests.statistics)
    state = _awaited(Requests.state)
    evaluate = _awaited(Requests.evaluate)
    export = _awaited(Requests.export)

    async def _send(self, call: Call[T]) -> T:
        attempt = 0
        while True:
            try:
                outcome: Any = await self._http.request(
                    call.method, call.path, json=call.body, timeout=call.timeout
                )
            except httpx.TransportError as error:
                outcome = error
            pause = self._pause(attempt, outcome)
            if pause is None:
                answer = _granted(outcome)
                return await asyncio.to_thread(call.read, answer) if call.slow else call.read(answer)
            await asyncio.sleep(pause)
            attempt += 1

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
