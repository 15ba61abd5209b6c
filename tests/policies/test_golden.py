"""The law of every rule in a state small enough to work out by hand, to the digits of other programs."""

import numpy as np
import pytest

from linmed.policies import (
    E2D,
    OFUL,
    Greedy,
    LinIMED,
    LinMEDNoDesign,
    LinTS,
    Pinpoint,
    RandUCB,
    SpannerIGW,
    SquareCB,
    Uniform,
)
from tests.policies.toy import probabilities, state_of

LAWS = [
    (OFUL(delta=0.1), [0, 0, 1]),
    *((LinIMED(version=version, horizon=1000, delta=0.1), [0, 1, 0]) for version in (1, 2, 3)),
    (LinMEDNoDesign(), np.array([1.0, 0.9773541, 0.9951710]) / 2.9725251),
    (RandUCB(delta=0.1), [0.99973293, 0, 0.00026707]),
    (RandUCB(delta=0.1, coupled=False), [0.64819888, 0.04273672, 0.30906440]),
    (SquareCB(gamma=10), [0.63286713, 0.13636364, 0.23076923]),
    (SquareCB(gamma=10, form="normalised"), [0.66230281, 0.09826513, 0.23943206]),
    (SpannerIGW(gamma=8, C_opt=1, design="optimal"), [0.8357719, 0.0219841, 0.1422440]),
    (E2D(gamma=10), [0.79451349, 0.05378668, 0.15169983]),
    (E2D(gamma=1), [0.41691026, 0.24201759, 0.34107214]),
    (LinTS(scale=1.0, delta=0.1), [0.57442523, 0.18668179, 0.23889299]),
    (LinTS(delta=0.1), [0.49062509, 0.34898128, 0.16039364]),
    (LinTS(scale="squared-radius", delta=0.1), [0.46371214, 0.40023111, 0.13605675]),
    (Pinpoint(delta=0.1), [0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3]),
    (Greedy(epsilon=0.3), [0.8, 0.1, 0.1]),
    (Uniform(), [1 / 3, 1 / 3, 1 / 3]),
]


@pytest.mark.parametrize(("policy", "law"), LAWS, ids=lambda one: getattr(one, "name", ""))
def test_probabilities_of_the_toy_state(policy, law):
    digits = 5e-7 if isinstance(policy, SpannerIGW) else 1e-8
    np.testing.assert_allclose(probabilities(policy), law, atol=digits)


def test_radii_of_the_toy_state():
    assert OFUL(delta=0.1).radius(state_of(OFUL()))[0] == pytest.approx(3.5292152, abs=5e-8)
    assert OFUL().radius(state_of(OFUL()))[0] ** 2 == pytest.approx(9.8372152, abs=5e-8)
