"""The shares of which minimum empirical divergence makes its proposal q_t: of LinMED and its GLM version."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from linmed import validation
from linmed.policies.base import Policy


@dataclass(frozen=True)
class Shares(Policy):
    """q_t = α_opt·(design) + α_emp·1{a = â} + (1 − α_opt − α_emp)/K."""

    alpha_emp: float = 0.9
    """α_emp: share of the empirically best arm."""
    alpha_opt: float | None = None
    """α_opt: share of the design; None means (1 − alpha_emp)/2, as in the paper."""
    version: Literal[0, 1] = 0
    """0: the design is made for the arms rescaled by √f; 1: for the arms with f ≥ 1/e."""
    design: Literal["approx", "optimal", "warm"] = "approx"
    """The paper's ApproxDesign, the G-optimal design (certificate at most 1 + 1e-6), or an ApproxDesign that
    starts from the last one: much faster where many arms stay the same (see `optimality`)."""
    explore: bool = True
    """The half-step on the arm of largest leverage."""
    ties: Literal["first", "even"] = field(default="first", kw_only=True)
    """Who gets α_emp while all arms look equally good, as before the first reward: the first of them, or all
    evenly, as if â were drawn among them."""

    designs: ClassVar[tuple[str, ...]] = ("approx", "optimal", "warm")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("alpha_emp", validation.between("alpha_emp", self.alpha_emp, 0.0, 1.0))
        if self.alpha_opt is not None:
            self._set("alpha_opt", validation.between("alpha_opt", self.alpha_opt, 0.0, 1.0))
            if self.alpha_emp + self.alpha_opt > 1.0 + 1e-12:
                raise validation.BadValue(
                    "alpha_opt",
                    f"alpha_emp + alpha_opt must be at most 1, got {self.alpha_emp!r} + {self.alpha_opt!r}",
                )
        self._set("version", validation.option("version", self.version, (0, 1)))
        self._set("design", validation.option("design", self.design, self.designs))
        if self.design == "warm" and self.version == 1:
            raise validation.BadValue(
                "design", "design must be 'approx' or 'optimal' with version=1, got 'warm'"
            )
        self._set("explore", validation.flag("explore", self.explore))
        self._set("ties", validation.option("ties", self.ties, ("first", "even")))

    @property
    def design_share(self) -> float:
        """α_opt."""
        return (1.0 - self.alpha_emp) / 2.0 if self.alpha_opt is None else self.alpha_opt

    @property
    def _shares(self) -> tuple[Any, ...]:
        """As the core's `MedRule` takes them."""
        shares = self.alpha_emp, self.design_share, self.version
        return *shares, self.design == "optimal", self.explore, self.ties == "even"

    def derived_name(self) -> str:
        """LinMED-90 and the like where alpha_opt = (1 − alpha_emp)/2."""
        name = type(self).__name__
        if abs(self.design_share - (1.0 - self.alpha_emp) / 2.0) < 1e-12:
            return f"{name}-{100 * self.alpha_emp:g}" + self.describe("alpha_emp", "alpha_opt")
        return name + self.describe()
