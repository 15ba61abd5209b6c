"""Maps from (context, item) to the features of an arm, and catalogues of items.

A map is declared once, kept as JSON, and shared by agent, log and service. Nothing here knows a policy.
"""

from linmed.features.catalogue import Catalogue, Items
from linmed.features.columns import Category, Column, Fourier, Number, Vector
from linmed.features.features import Features
from linmed.features.index import Index, Scan

__all__ = [
    "Catalogue",
    "Category",
    "Column",
    "Features",
    "Fourier",
    "Index",
    "Items",
    "Number",
    "Scan",
    "Vector",
]
