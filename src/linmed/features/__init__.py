"""From (context, item) to features: catalogues of items, and indexes over them."""
