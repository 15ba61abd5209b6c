"""Random numbers drawn ahead of the decisions that use them, and where the stream goes on."""

from typing import Any

import numpy as np

from linmed import validation
from linmed.policies import Policy

BLOCK = 256
"""Decisions whose random numbers are drawn at once: a call of the generator costs more than what it draws."""


class NoiseBuffer:
    """The random numbers of the next decisions: `rows` (n, 1, size), from row `used` on.

    Numbers depend on the stream and on how many decisions there were, not on how many were asked for at
    once. `uniforms` is how many a decision takes instead of what the policy would draw.
    """

    def __init__(self, bits: np.random.PCG64, policy: Policy, dim: int, uniforms: int | None = None) -> None:
        self._bits, self._policy, self._dim, self._uniforms = bits, policy, dim, uniforms
        self._starts: list[Any] = []  # the stream before each block of `rows`
        self.rows = np.empty((0, 1, policy.noise_size(dim) if uniforms is None else uniforms))
        self.used = 0

    def draw(self, count: int) -> None:
        """Have the numbers of `count` more decisions in `rows`."""
        missing = count - (len(self.rows) - self.used)
        if missing > 0:
            stream, done = np.random.Generator(self._bits), self.used // BLOCK
            blocks = [self.rows[done * BLOCK :]]
            self._starts = self._starts[done:]
            for _ in range(0, missing, BLOCK):
                self._starts.append(self._bits.state)
                if self._uniforms is None:
                    blocks.append(self._policy.draw_noise(stream, (BLOCK, 1), self._dim))
                else:
                    blocks.append(stream.random((BLOCK, 1, self._uniforms)))
            self.rows = validation.for_kernels(np.concatenate(blocks))
            self.used -= done * BLOCK

    def to_dict(self) -> dict[str, Any]:
        """The stream before the present block, and how far that block was used."""
        block, used = divmod(self.used, BLOCK)
        return {"stream": [*self._starts, self._bits.state][block], "used": used}

    def restore(self, stream: Any, used: Any) -> None:
        """Go on where `to_dict` was asked."""
        if validation.whole("used", used, at_least=0) > BLOCK:
            raise ValueError(f"{used} random numbers used of a block of {BLOCK}")
        self._bits.state = stream
        self._starts, self.rows, self.used = [], self.rows[:0], 0
        self.draw(used)
        self.used = used
