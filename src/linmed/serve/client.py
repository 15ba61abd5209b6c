"""Typed clients of the service, for threads (`Client`) and for asyncio (`AsyncClient`). They need only httpx.

Retries never decide or reward twice: every decision is sent with a key (your own, or a random one), and the
same reward sent again changes nothing.
"""

import asyncio
import random
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from numpy.typing import ArrayLike

RETRIED = frozenset({429, 502, 503, 504})


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


@dataclass(frozen=True, slots=True)
class Call:
    """One request, before it is sent."""

    method: str
    path: str
    body: dict[str, Any] | None = None


class _Shared:
    """What both clients share: settings, the requests, and what to do with an answer."""

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

    def _pause(self, attempt: int, response: httpx.Response | None) -> float | None:
        """Seconds until the next attempt, or None if this was the last or its answer is final."""
        if attempt + 1 >= self.attempts or (response is not None and response.status_code not in RETRIED):
            return None
        drawn = random.uniform(0.0, self.backoff * 2**attempt)
        asked = None if response is None else response.headers.get("Retry-After")
        return max(drawn, float(asked)) if asked is not None and asked.isdigit() else drawn


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        error = response.json()["error"]
        raise ServiceError(response.status_code, error["message"], error.get("field"))
    except (ValueError, KeyError, TypeError):
        raise ServiceError(response.status_code, response.text[:200]) from None


def _create(
    name: str,
    dim: int,
    policy: Mapping[str, Any] | None,
    catalogue: Mapping[str, ArrayLike] | None,
    map: str,
    reward_range: tuple[float, float] | None,
    log_arms: bool,
) -> Call:
    body: dict[str, Any] = {"name": name, "dim": dim, "map": map, "log_arms": log_arms}
    if policy is not None:
        body["policy"] = dict(policy)
    if catalogue is not None:
        body["catalogue"] = _catalogue(catalogue)
    if reward_range is not None:
        body["reward_range"] = [float(bound) for bound in reward_range]
    return Call("POST", "/v1/bandits", body)


def _catalogue(catalogue: Mapping[str, ArrayLike]) -> dict[str, Any]:
    return {"ids": list(catalogue), "features": [_numbers(row) for row in catalogue.values()]}


def _numbers(value: ArrayLike) -> Any:
    """Arrays as lists."""
    import numpy as np

    return np.asarray(value, dtype=np.float64).tolist()


def _ask(
    arms: ArrayLike | None, arm_ids: Sequence[str] | None, context: ArrayLike | None, key: str | None
) -> dict[str, Any]:
    body: dict[str, Any] = {"key": key or uuid.uuid4().hex}
    if arms is not None:
        body["arms"] = _numbers(arms)
    if arm_ids is not None:
        body["arm_ids"] = list(arm_ids)
    if context is not None:
        body["context"] = _numbers(context)
    return body


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


def _identifier(decision: ServedDecision | str) -> str:
    return decision if isinstance(decision, str) else decision.id


def _rewards(pairs: Iterable[tuple[ServedDecision | str, float]]) -> dict[str, Any]:
    return {"rewards": [{"decision_id": _identifier(d), "reward": float(r)} for d, r in pairs]}


def _evaluate(
    targets: Sequence[Any], estimators: Sequence[str], interval: str, confidence: float
) -> dict[str, Any]:
    return {
        "targets": list(targets),
        "estimators": list(estimators),
        "interval": interval,
        "confidence": confidence,
    }


class Client(_Shared):
    """Blocking; safe to share between threads."""

    def __init__(self, url: str = "http://127.0.0.1:8000", **options: Any):
        super().__init__(url, **options)
        self._http = httpx.Client(**self._options)

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
    ) -> dict[str, Any]:
        """Create a bandit, or find it as it is described. `policy` as `Policy.to_dict()` gives it."""
        return self._json(_create(name, dim, policy, catalogue, map, reward_range, log_arms))

    def bandit(self, name: str) -> dict[str, Any]:
        """Its settings."""
        return self._json(Call("GET", f"/v1/bandits/{name}"))

    def change(self, name: str, **changes: Any) -> dict[str, Any]:
        """Change policy, catalogue, reward_range or archived."""
        if changes.get("catalogue") is not None:
            changes["catalogue"] = _catalogue(changes["catalogue"])
        return self._json(Call("PATCH", f"/v1/bandits/{name}", changes))

    def decide(
        self,
        name: str,
        arms: ArrayLike | None = None,
        *,
        arm_ids: Sequence[str] | None = None,
        context: ArrayLike | None = None,
        key: str | None = None,
    ) -> ServedDecision:
        """One decision among `arms` (K, d), or among the catalogue's."""
        return _decision(
            self._json(Call("POST", f"/v1/bandits/{name}/decide", _ask(arms, arm_ids, context, key)))
        )

    def decide_batch(self, name: str, sets: Iterable[ArrayLike]) -> list[ServedDecision]:
        """One decision in each set of arms."""
        body = {"decisions": [_ask(arms, None, None, None) for arms in sets]}
        answer = self._json(Call("POST", f"/v1/bandits/{name}/decide/batch", body))
        return [_decision(one) for one in answer["decisions"]]

    def reward(self, name: str, decision: ServedDecision | str, reward: float) -> None:
        """The reward of one decision."""
        body = {"decision_id": _identifier(decision), "reward": float(reward)}
        self._json(Call("POST", f"/v1/bandits/{name}/reward", body))

    def reward_batch(self, name: str, pairs: Iterable[tuple[ServedDecision | str, float]]) -> None:
        """The rewards of several decisions, all or none."""
        self._json(Call("POST", f"/v1/bandits/{name}/reward/batch", _rewards(pairs)))

    def decision(self, name: str, decision: ServedDecision | str) -> dict[str, Any]:
        """A decision as the log has it, with its reward."""
        return self._json(Call("GET", f"/v1/bandits/{name}/decisions/{_identifier(decision)}"))

    def statistics(self, name: str) -> dict[str, Any]:
        """Counts, shares and curves."""
        return self._json(Call("GET", f"/v1/bandits/{name}/statistics"))

    def state(self, name: str) -> dict[str, Any]:
        """What the server has learned."""
        return self._json(Call("GET", f"/v1/bandits/{name}/state"))

    def evaluate(
        self,
        name: str,
        targets: Sequence[Any] = ("uniform", "greedy"),
        estimators: Sequence[str] = ("ipw",),
        interval: str = "betting",
        confidence: float = 0.95,
    ) -> dict[str, Any]:
        """What would other policies have earned on the log so far?"""
        body = _evaluate(targets, estimators, interval, confidence)
        return self._json(Call("POST", f"/v1/bandits/{name}/evaluate", body))

    def export(self, name: str, path: str | Path) -> None:
        """Write the log to a Parquet file that `linmed.ope.DecisionLog.open` reads."""
        Path(path).write_bytes(self._send(Call("GET", f"/v1/bandits/{name}/log")).content)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _json(self, call: Call) -> dict[str, Any]:
        answer: dict[str, Any] = self._send(call).json()
        return answer

    def _send(self, call: Call) -> httpx.Response:
        attempt = 0
        while True:
            response, failure = None, None
            try:
                response = self._http.request(call.method, call.path, json=call.body)
            except httpx.TransportError as error:
                failure = error
            pause = self._pause(attempt, response)
            if pause is None:
                if failure is not None:
                    raise failure
                assert response is not None
                return _checked(response)
            time.sleep(pause)
            attempt += 1


class AsyncClient(_Shared):
    """For asyncio."""

    def __init__(self, url: str = "http://127.0.0.1:8000", **options: Any):
        super().__init__(url, **options)
        self._http = httpx.AsyncClient(**self._options)

    async def create(
        self,
        name: str,
        dim: int,
        policy: Mapping[str, Any] | None = None,
        *,
        catalogue: Mapping[str, ArrayLike] | None = None,
        map: str = "plain",
        reward_range: tuple[float, float] | None = None,
        log_arms: bool = True,
    ) -> dict[str, Any]:
        """Create a bandit, or find it as it is described. `policy` as `Policy.to_dict()` gives it."""
        return await self._json(_create(name, dim, policy, catalogue, map, reward_range, log_arms))

    async def bandit(self, name: str) -> dict[str, Any]:
        """Its settings."""
        return await self._json(Call("GET", f"/v1/bandits/{name}"))

    async def change(self, name: str, **changes: Any) -> dict[str, Any]:
        """Change policy, catalogue, reward_range or archived."""
        if changes.get("catalogue") is not None:
            changes["catalogue"] = _catalogue(changes["catalogue"])
        return await self._json(Call("PATCH", f"/v1/bandits/{name}", changes))

    async def decide(
        self,
        name: str,
        arms: ArrayLike | None = None,
        *,
        arm_ids: Sequence[str] | None = None,
        context: ArrayLike | None = None,
        key: str | None = None,
    ) -> ServedDecision:
        """One decision among `arms` (K, d), or among the catalogue's."""
        call = Call("POST", f"/v1/bandits/{name}/decide", _ask(arms, arm_ids, context, key))
        return _decision(await self._json(call))

    async def decide_batch(self, name: str, sets: Iterable[ArrayLike]) -> list[ServedDecision]:
        """One decision in each set of arms."""
        body = {"decisions": [_ask(arms, None, None, None) for arms in sets]}
        answer = await self._json(Call("POST", f"/v1/bandits/{name}/decide/batch", body))
        return [_decision(one) for one in answer["decisions"]]

    async def reward(self, name: str, decision: ServedDecision | str, reward: float) -> None:
        """The reward of one decision."""
        body = {"decision_id": _identifier(decision), "reward": float(reward)}
        await self._json(Call("POST", f"/v1/bandits/{name}/reward", body))

    async def reward_batch(self, name: str, pairs: Iterable[tuple[ServedDecision | str, float]]) -> None:
        """The rewards of several decisions, all or none."""
        await self._json(Call("POST", f"/v1/bandits/{name}/reward/batch", _rewards(pairs)))

    async def decision(self, name: str, decision: ServedDecision | str) -> dict[str, Any]:
        """A decision as the log has it, with its reward."""
        return await self._json(Call("GET", f"/v1/bandits/{name}/decisions/{_identifier(decision)}"))

    async def statistics(self, name: str) -> dict[str, Any]:
        """Counts, shares and curves."""
        return await self._json(Call("GET", f"/v1/bandits/{name}/statistics"))

    async def state(self, name: str) -> dict[str, Any]:
        """What the server has learned."""
        return await self._json(Call("GET", f"/v1/bandits/{name}/state"))

    async def evaluate(
        self,
        name: str,
        targets: Sequence[Any] = ("uniform", "greedy"),
        estimators: Sequence[str] = ("ipw",),
        interval: str = "betting",
        confidence: float = 0.95,
    ) -> dict[str, Any]:
        """What would other policies have earned on the log so far?"""
        body = _evaluate(targets, estimators, interval, confidence)
        return await self._json(Call("POST", f"/v1/bandits/{name}/evaluate", body))

    async def export(self, name: str, path: str | Path) -> None:
        """Write the log to a Parquet file that `linmed.ope.DecisionLog.open` reads."""
        response = await self._send(Call("GET", f"/v1/bandits/{name}/log"))
        await asyncio.to_thread(Path(path).write_bytes, response.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _json(self, call: Call) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._send(call)).json()
        return answer

    async def _send(self, call: Call) -> httpx.Response:
        attempt = 0
        while True:
            response, failure = None, None
            try:
                response = await self._http.request(call.method, call.path, json=call.body)
            except httpx.TransportError as error:
                failure = error
            pause = self._pause(attempt, response)
            if pause is None:
                if failure is not None:
                    raise failure
                assert response is not None
                return _checked(response)
            await asyncio.sleep(pause)
            attempt += 1
