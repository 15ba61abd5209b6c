"""CatalogueMED: minimum empirical divergence by one trial of its rejection, for any number of arms."""

from dataclasses import dataclass
from typing import Any, ClassVar

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.linmed import MedParameters, MedPolicy
from linmed.policies.posterior import Capabilities


@dataclass(frozen=True, kw_only=True)
class CatalogueMED(MedParameters, MedPolicy):
    """Propose an arm by LinMED's q_t and play it with probability f_t, else play the empirically best one, â.

    p_t(a) = q_t(a) f_t(a) for every a ≠ â. LinMED divides this by its sum over all arms, which alone needs
    all of them; here the rest goes to â. So p_t(a) = Z p(a) with LinMED's p and Z = Σ q_t f_t, at least
    α_emp, and â is played no less often. Among arms in a matrix it is a policy like any other;
    `linmed.catalogue_sampler` decides among millions of items, each with its exact probability.

    >>> CatalogueMED().name, CatalogueMED(alpha_emp=0.5, sigma=0.1).name
    ('CatalogueMED-90', 'CatalogueMED-50 (sigma=0.1)')

    The parameters are those of `LinMED`, but for design="warm" and `floor`, and of `RidgePolicy`.

    >>> from linmed import Agent
    >>> from linmed.features import Catalogue
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> decision = Agent(CatalogueMED(), catalogue=teas, seed=7).decide()
    >>> decision.item, round(decision.probability, 3)
    ('oolong', 0.975)
    """

    properties: ClassVar[Properties] = Properties(
        "LinMED by one trial of its rejection", minimax="d √n, argued", instance="d² log²(n) / Δ, argued"
    )
    designs: ClassVar[tuple[str, ...]] = ("approx", "optimal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor:
            raise validation.BadValue(
                "floor",
                "floor must be 0: CatalogueMED proposes any item already, more often with alpha_emp=0.5; "
                f"or use LinMED(floor=…), which looks at every item, got {self.floor:g}",
            )

    def _refuse_intercept(self) -> None:
        raise validation.BadValue(
            "intercept",
            "intercept must be False for CatalogueMED, whose routes know no mean of the arms played: add a "
            "constant column to the features instead",
        )

    @property
    def capabilities(self) -> Capabilities:
        """As of every ridge policy; and it decides among a catalogue by route."""
        return super().capabilities._replace(by_route=True)

    @property
    def rule(self) -> Any:
        """q_t f_t, and the rest to â."""
        return core.OneTrialRule(*self._med_parameters)
