"""Show results: tables, figures, pages and progress bars, all in one style."""

from linmed.report.tables import Table

__all__ = ["Table"]
