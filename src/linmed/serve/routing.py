"""Decide among a whole catalogue, however large, with a `CatalogueSampler` for each version served."""

import copy
import threading
from typing import Any, cast

import numpy as np

from linmed.catalogue_sampler import CatalogueSampler
from linmed.features import Scan
from linmed.policies import Policy
from linmed.serve.encoding import Joining
from linmed.serve.item_table import Catalogue
from linmed.serve.settings import LARGEST
from linmed.validation import BadValue, Floats

SCANNED = 200
"""Numbers that an index goes through in the time that a policy takes for one."""
ROUTED = 3000
"""Numbers of arms in the time of which a decision by route is made among few items."""
TOGETHER = 16
"""Decisions that are made in one pass over the items, so that others wait for no more than these."""
SHARED = 4
"""A pass for TOGETHER decisions takes so many times less than one for each."""


class Router:
    """The routes of one version of a catalogue. Index and coreset are made by the first who needs them."""

    def __init__(self, policy: Policy, catalogue: Catalogue, joining: Joining):
        self.policy, self.catalogue, self.joining = policy, catalogue, joining
        self._before: Router | None = None
        self._made: CatalogueSampler | None = None
        self._lock = threading.Lock()

    def after(self, before: "Router | None") -> None:
        """Take over what can be used of an earlier version; made now if that one is in use.

        Then those who decide do not wait for it: the earlier version serves meanwhile.
        """
        if before is None or before is self:
            return
        self._before = before if before.used else before._before
        if before.used:
            self.routes()

    @property
    def used(self) -> bool:
        """Whether index and coreset are there."""
        return self._made is not None

    def routes(self) -> CatalogueSampler:
        """Ready to decide."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
                self._before = None
            return self._made

    def _make(self) -> CatalogueSampler:
        before, index, coreset = self._before, Scan(), None
        if before is not None and before.catalogue.precedes(self.catalogue):
            old = before.routes()
            coreset = old.coreset
            if self.catalogue.largest <= before.catalogue.largest:
                # Rows larger than all before would have the index write all of them anew, in units in
                # which the earlier one, that goes on serving, does not read them.
                index = copy.copy(cast(Scan, old.index))
        made = CatalogueSampler(self.policy, cast(Any, self.catalogue), index, self._lift, coreset)
        made.follow()
        return made

    def _lift(self, context: Floats) -> tuple[Floats, Floats]:
        return self.joining.products(self.catalogue.width).lift(context)

    def check(self, context: Floats) -> None:
        """Refuse a context whose products with items may be larger than the service accepts."""
        largest = self.catalogue.largest * max(1.0, float(np.abs(context).max(initial=0.0)))
        if largest > LARGEST:
            text = f"context: its products with items may be {largest:g}; at most {LARGEST:g} is accepted"
            raise BadValue("context", text)

    def numbers(self, decisions: int = 1) -> int:
        """Numbers of arms in the time of which so many decisions are made together."""
        one_pass = self.catalogue.used * self.catalogue.width // SCANNED
        return decisions * ROUTED + max(SHARED, decisions) * one_pass // SHARED
