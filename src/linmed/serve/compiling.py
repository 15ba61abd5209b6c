"""Policies made ready beside the event loop: the first call of a kernel compiles it, which takes seconds."""

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

from linmed.policies import Policy
from linmed.policies.paths import walk_all
from linmed.route_paths import walk_routes
from linmed.serve.threads import end, giving_way

logger = logging.getLogger("linmed.serve")


def path_of(policy: Policy) -> str:
    """What tells which kernels a policy reaches: its class and options, and which numbers are 0."""

    def kind(value: Any) -> Any:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value if value in range(10) else "number"
        return value

    return json.dumps(
        {name: kind(value) for name, value in policy.to_dict().items() if name != "label"}, default=repr
    )


class Compiler:
    """One thread that goes through every path of a policy's kernels, once for each policy."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="linmed-compiler")
        self._begun: dict[str, asyncio.Future[None]] = {}
        self._stopping = False

    async def ready(self, policy: Policy) -> None:
        """Returns when decisions and rewards of this policy compile nothing more."""
        key = path_of(policy)
        if key not in self._begun:
            self._begun[key] = asyncio.wrap_future(self._thread.submit(self._walk, policy))
        await asyncio.shield(self._begun[key])

    @property
    def at_work(self) -> list[str]:
        """The policies that are not ready yet."""
        names = [json.loads(key)["policy"] for key, begun in self._begun.items() if not begun.done()]
        return sorted(set(names))

    def stop(self, seconds: float) -> None:
        """Begin nothing more, and wait so long for what is being compiled."""
        self._stopping = True
        end(self._thread, seconds)

    def _walk(self, policy: Policy) -> None:
        try:
            with giving_way():
                for _ in chain(walk_all(policy), walk_routes(policy)):
                    if self._stopping:
                        return
        except Exception as error:  # a policy of someone's own need not take every shape
            logger.info("cannot compile all of a policy beforehand", extra={"error": str(error)})
