"""A policy, its state and its random stream: one live decision maker."""

import contextlib
import io
import json
import math
import os
import secrets
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from linmed import checks
from linmed.checks import Floats
from linmed.kernels.linear import all_within
from linmed.policies import Policy, RidgePolicy, RidgeState

if TYPE_CHECKING:
    from linmed.log import Recorder

FORMAT = 1
"""Version of the file that `Agent.save` writes."""
_BLOCK = 256  # decisions whose random numbers are drawn at once
_ONE_REPLICA = np.zeros(1, dtype=np.int64)


class UnknownDecision(ValueError, KeyError):
    """A reward for a decision that this agent is not waiting for."""

    __str__ = Exception.__str__  # a KeyError would quote its message


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What was played and how probable it was, before any random draw was made."""

    id: str
    arm: int
    log_probability: float
    features: Floats  # (d,) of the arm that was played
    log_probabilities: Floats | None  # (K,); None where the policy computes only the played arm's

    @property
    def probability(self) -> float:
        """The exact probability with which this arm was to be played."""
        return math.exp(self.log_probability)

    @property
    def probabilities(self) -> Floats | None:
        """The probability of every arm (K,)."""
        return None if self.log_probabilities is None else np.exp(self.log_probabilities)


class Agent:
    """One decision maker: `decide`, and `learn` whenever the reward comes.

    >>> from linmed import LinMED
    >>> agent = Agent(LinMED(sigma=0.5), dim=2, seed=7)
    >>> decision = agent.decide([[1.0, 0.0], [0.6, 0.8]])
    >>> agent.learn(decision, reward=1.0)
    >>> agent.count
    1

    `log` is a directory in which every decision and reward is recorded for off-policy evaluation (or any
    object with the methods of `linmed.log.Recorder`); `log_arms=False` leaves the arms that were not
    played out of it. `max_pending` bounds how many decisions wait for a reward: the oldest are forgotten,
    and counted in `dropped`.
    """

    def __init__(
        self,
        policy: Policy,
        dim: int,
        seed: int | None = None,
        *,
        max_pending: int | None = None,
        log: "str | os.PathLike[str] | Recorder | None" = None,
        log_arms: bool = True,
    ) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy such as LinMED(), got {policy!r}")
        self.policy = policy
        self.dim = checks.whole("dim", dim)
        self.max_pending = None if max_pending is None else checks.whole("max_pending", max_pending)
        if seed is not None:
            seed = checks.whole("seed", seed, at_least=0)
        self.state = policy.start(1, self.dim)
        self.dropped = 0
        self.log = _open_log(log)
        self.log_arms = checks.flag("log_arms", log_arms)
        self._bits = np.random.PCG64(seed)
        self._draw_block()
        self._run = secrets.token_hex(4)
        self._decisions = 0
        self._reward = np.empty(1)
        self._pending: dict[str, Floats] = {}  # what learn() needs, by decision, oldest first

    def decide(self, arms: ArrayLike) -> Decision:
        """Choose one of `arms` (K, d). The set may change in size and content from call to call."""
        matrix = self._matrix(arms)
        if self._used == _BLOCK:
            self._draw_block()
        choice = self.policy.decide(self.state, matrix[None], self._noise[self._used])
        self._used += 1
        arm = int(choice.arm[0])
        log_p = None if choice.log_probabilities is None else choice.log_probabilities[0]
        identifier = f"{self._run}-{self._decisions}"
        decision = Decision(identifier, arm, float(choice.log_probability[0]), matrix[arm].copy(), log_p)
        self._decisions += 1
        self._pending[identifier] = choice.features[0]
        if self.max_pending is not None and len(self._pending) > self.max_pending:
            del self._pending[next(iter(self._pending))]
            self.dropped += 1
        if self.log is not None:
            self.log.record(
                identifier,
                arm=arm,
                arm_count=len(matrix),
                log_probability=decision.log_probability,
                features=decision.features,
                log_probabilities=log_p,
                arms=matrix if self.log_arms else None,
                policy=self.policy.name,
                version=self.count,
            )
        return decision

    def learn(self, decision: Decision | str, reward: float) -> None:
        """Absorb the reward of one decision (or its id), now or much later, in any order."""
        identifier = decision.id if isinstance(decision, Decision) else decision
        value = checks.reward("reward", reward)
        features = self._pending.get(identifier) if isinstance(identifier, str) else None
        if features is None:
            raise UnknownDecision(self._explain_missing(identifier))
        self._reward[0] = value
        self.policy.learn(self.state, features[None], self._reward, _ONE_REPLICA)
        del self._pending[identifier]
        if self.log is not None:
            # A log opened after the decision was made has no row for the reward to join.
            with contextlib.suppress(KeyError):
                self.log.reward(identifier, value)

    def observe(self, features: ArrayLike, reward: ArrayLike) -> None:
        """Absorb data from elsewhere (a warm start): features (d,) with one reward, or (n, d) with (n,)."""
        rows = np.atleast_2d(checks.floats("features", features))
        rewards = np.atleast_1d(checks.floats("reward", reward))
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"features must have shape ({self.dim},) or (n, {self.dim}), got {rows.shape}")
        if rewards.shape != (rows.shape[0],):
            raise ValueError(f"reward must have shape ({rows.shape[0]},), one per row, got {rewards.shape}")
        self.policy.observe(self.state, rows, rewards, np.zeros(len(rows), dtype=np.int64))

    def probabilities(self, arms: ArrayLike) -> Floats:
        """The probability with which each of `arms` (K, d) would be played now."""
        matrix = self._matrix(arms)
        result: Floats = np.exp(self.policy.log_probabilities(self.state, matrix[None])[0])
        return result

    @property
    def theta(self) -> Floats:
        """The estimate θ̂ (d,)."""
        theta: Floats = self.state.theta[0]
        return theta.copy()

    @property
    def covariance(self) -> Floats:
        """σ² V⁻¹ (d, d), the covariance of θ̂ given the arms played."""
        if not (isinstance(self.state, RidgeState) and isinstance(self.policy, RidgePolicy)):
            raise AttributeError(f"{type(self.policy).__name__} keeps no covariance")
        inverse: Floats = self.state.inverse[0]
        return self.policy.sigma**2 * inverse

    @property
    def count(self) -> int:
        """Rewards absorbed so far."""
        return int(self.state.count[0])

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of the decisions whose reward has not come, oldest first."""
        return tuple(self._pending)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically: state, random stream, pending decisions, no pickle."""
        target = Path(path)
        meta = {
            "format": FORMAT,
            "policy": self.policy.to_dict(),
            "dim": self.dim,
            "max_pending": self.max_pending,
            "dropped": self.dropped,
            "stream": self._block_start,
            "used": self._used,
            "run": self._run,
            "decisions": self._decisions,
            "pending": list(self._pending),
        }
        arrays = {f"state_{name}": array for name, array in self.state.arrays().items()}
        arrays["pending"] = (
            np.array(list(self._pending.values())) if self._pending else np.empty((0, self.dim))
        )
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, log: "str | os.PathLike[str] | Recorder | None" = None
    ) -> "Agent":
        """The agent that `save` wrote; it continues exactly where that one stood."""
        content = Path(path).read_bytes()
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = json.loads(arrays.pop("meta").tobytes())
            version = meta["format"]
        except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError, TypeError) as error:
            raise ValueError(f"{path} is not a linmed agent, or it is damaged ({error})") from None
        if version != FORMAT:
            raise ValueError(f"{path} has format {version}; this release of linmed reads format {FORMAT}")
        agent = cls(Policy.from_dict(meta["policy"]), meta["dim"], max_pending=meta["max_pending"], log=log)
        pending = arrays.pop("pending")
        agent.state.restore({name.removeprefix("state_"): array for name, array in arrays.items()})
        agent.dropped, agent._run, agent._decisions = meta["dropped"], meta["run"], meta["decisions"]
        agent._bits.state = meta["stream"]
        agent._draw_block()
        agent._used = meta["used"]
        agent._pending = dict(zip(meta["pending"], pending, strict=True))
        return agent

    def close(self) -> None:
        """Make the log durable."""
        if self.log is not None:
            self.log.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _matrix(self, arms: ArrayLike) -> Floats:
        """`arms`, checked: in one compiled pass where they are as they should be."""
        if (
            type(arms) is np.ndarray
            and arms.dtype == np.float64
            and arms.ndim == 2
            and arms.flags.c_contiguous
            and arms.shape[0] > 0
            and arms.shape[1] == self.dim
            and all_within(arms, checks.LARGEST)
        ):
            return arms
        return checks.arm_matrix(arms, self.dim)

    def _draw_block(self) -> None:
        """Random numbers for the next decisions; a failed decision uses none of them up."""
        self._block_start: Any = self._bits.state
        stream = np.random.Generator(self._bits)
        draw = stream.random if self.policy.noise == "uniform" else stream.standard_normal
        self._noise = draw((_BLOCK, 1, self.policy.noise_size(self.dim)))
        self._used = 0

    def _explain_missing(self, identifier: object) -> str:
        run, _, number = str(identifier).partition("-")
        if run == self._run and number.isdigit() and int(number) < self._decisions:
            return f"decision {identifier!r} has had its reward already, or was dropped by max_pending"
        return f"decision {identifier!r} is unknown to this agent"


def _open_log(log: "str | os.PathLike[str] | Recorder | None") -> "Recorder | None":
    if not isinstance(log, (str, os.PathLike)):
        return log
    from linmed.log import LogWriter  # pyarrow is loaded only where there is a log

    return LogWriter(log)
