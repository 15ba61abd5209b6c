"""The paper's experiments declared as data, the claims ledger and the report."""

from linmed.extras import require

require("linmed.experiments", "paper")

from linmed.experiments.catalogue import EXPERIMENTS
from linmed.experiments.claims import Claim, Row
from linmed.experiments.experiment import Experiment, Findings, Setting
from linmed.experiments.ledger import ledger
from linmed.experiments.output import OutputError
from linmed.experiments.run import Report, run

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "Findings",
    "OutputError",
    "Report",
    "Row",
    "Setting",
    "ledger",
    "run",
]
