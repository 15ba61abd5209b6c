"""Policies by the names that people write: those of the paper's legends, and those of the classes."""

from linmed.policies import ALL, LinIMED, LinMED, LinMEDNoDesign, LinTS, Policy, SpannerIGW
from linmed.registry import Makers

LEGENDS: Makers[Policy] = {
    "LinMED-99": (LinMED, {"alpha_emp": 0.99}),
    "LinMED-90": (LinMED, {"alpha_emp": 0.90}),
    "LinMED-50": (LinMED, {"alpha_emp": 0.50}),
    "LinMEDNOPT": (LinMEDNoDesign, {}),
    "LinTS-Freq": (LinTS, {"scale": "frequentist"}),
    "LinTS-Bayes": (LinTS, {"scale": "bayes"}),
    "LinIMED-1": (LinIMED, {"version": 1}),
    "LinIMED-2": (LinIMED, {"version": 2}),
    "LinIMED-3": (LinIMED, {"version": 3}),
    "SpannerIGW-AT": (SpannerIGW, {}),
}
"""Names in the paper's legends that are no class's: a class and what they fix."""


def policy_makers() -> Makers[Policy]:
    """Every policy by the paper's short names, and by its class's name."""
    return {**LEGENDS, **{cls.__name__: (cls, {}) for cls in ALL}}
