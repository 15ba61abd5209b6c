"""The paper's experiments declared as data, the claims ledger and the report."""

from linmed.experiments.catalogue import EXPERIMENTS, Experiment, Setting
from linmed.experiments.claims import Row, ledger
from linmed.experiments.findings import Findings
from linmed.experiments.output import OutputError
from linmed.experiments.run import Report, run

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Findings",
    "OutputError",
    "Report",
    "Row",
    "Setting",
    "ledger",
    "run",
]
