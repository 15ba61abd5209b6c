"""Has the world changed? `linmed.insight.drift` for a bandit whose policy watches for that."""

from typing import Any

from pydantic import BaseModel, Field

from linmed.insight.drift import drift_of
from linmed.serve.errors import refusing
from linmed.serve.server import Server


class MemoryWeight(BaseModel):
    """How much a memory is trusted."""

    half_life: str = Field(description="In rewards, or a duration; ∞ never forgets.")
    weight: float


class AlarmView(BaseModel):
    """The rewards contradicted that nothing has changed since the last alarm."""

    reward: int = Field(description="After how many rewards.")
    time: float | None = Field(description="When its decision was taken, in seconds since 1970.")
    log_e: float


class AdoptionView(BaseModel):
    """A long memory forgot its past and went on from what a shorter one knew."""

    reward: int
    time: float | None = Field(description="When its decision was taken, in seconds since 1970.")
    half_life: str
    source: str


class DriftView(BaseModel):
    """What is known of changes."""

    sentence: str
    changed: bool = Field(description="Whether an alarm was ever raised.")
    count: int = Field(description="Rewards so far.")
    memory: float = Field(description="How many rewards the estimate that decides has in mind.")
    weights: list[MemoryWeight]
    log_e: float = Field(description="Evidence since the last alarm, a logarithm.")
    alarm_at: float = Field(description="The evidence at which an alarm is raised.")
    alpha: float = Field(description="How probable it is that one is ever raised while nothing changes.")
    alarm_count: int
    alarms: list[AlarmView] = Field(description="The last sixteen.")
    adoption_count: int
    adoptions: list[AdoptionView] = Field(description="The last sixteen.")
    assumes: str = Field(description="When that is so.")
    doubt: str | None = Field(description="Why it may not be, where the rewards themselves show it.")


async def drift(server: Server, name: str) -> Any:
    """Has the world changed, and when? For a policy that forgets; the level of its alarms is guaranteed."""
    bandit = await server.bandit(name)
    with refusing():
        return drift_of(bandit.policy, bandit.state).to_dict()
