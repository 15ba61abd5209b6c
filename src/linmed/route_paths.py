"""Every path of decisions by route, gone through once so that a later decision finds its kernels compiled.

`linmed.policies.paths` is the same for decisions among arms. Here it matters in which precision the items are
held, whether they span their space, and whether the context adds something of its own to every arm.
"""

from collections.abc import Iterator

import numpy as np

from linmed.features import Catalogue, Features, Number, Vector
from linmed.kernels.compile import compile_neighbours
from linmed.policies import CatalogueMED, Policy
from linmed.routes import UNIFORMS, Routes

PRECISIONS = (np.float64, np.float32)
"""In which the index looks at items; those of half precision are made single."""
COUNTS = (1, 2, 40)
WIDTH = 3


def walk_routes(policy: Policy) -> Iterator[str]:
    """Decide and learn by route among catalogues of every kind, each told when it is done.

    A policy that knows no routes has nothing to go through.
    """
    if not isinstance(policy, CatalogueMED):
        return
    rng = np.random.default_rng(0)
    one, now = np.zeros(1, dtype=np.int64), np.zeros(1)
    for precision in PRECISIONS:
        for count in COUNTS:
            catalogue = Catalogue(range(count), rng.standard_normal((count, WIDTH)).astype(precision))
            for context in ((), (Number("x", scale=(0.0, 1.0)),)):
                item = (Vector("features", WIDTH),)
                made = Features(context=context, item=item, interactions="plain", intercept=False)
                routes, state = Routes(policy, catalogue, lift=made.lift), policy.start(1, made.dim)
                given = [np.full(made.context_width, 0.5)] * 2
                for reward in (0.0, 1.0):
                    drawn = routes.decide_each(state, rng.random((2, UNIFORMS)), given)
                    policy.learn_at(state, drawn[0].features[None], np.full(1, reward), one, now)
                routes.law(state, given[0]).complete()
            yield f"{count} items of {np.dtype(precision).name}"
    compile_neighbours()
