"""Typed clients of the service, for threads (`Client`) and for asyncio (`AsyncClient`). They need only httpx.

Retries never decide or reward twice: every decision is sent with a key (your own, or a random one), and the
same reward sent again changes nothing. So a request is tried again for as long as a restart of the service
takes (`patience`), and an application need not know of it.

Each request is described once, by a method of `calls.Requests`; the two clients differ only in how they
send it.
"""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from linmed.serve.calls import Call, Requests, ServedDecision

__all__ = ["AsyncClient", "Client", "ServedDecision", "ServiceError"]

P = ParamSpec("P")
T = TypeVar("T")

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
        """Close the connections.

        >>> client = Client(url)
        >>> client.close()  # as leaving `with Client(url) as client:` does
        """
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
