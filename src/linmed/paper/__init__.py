"""The paper's experiments declared as data, the claims ledger and the report."""

from linmed.extras import require

require("linmed.paper", "paper")

from linmed.paper.claims import Claim, Row
from linmed.paper.experiment import Experiment, Findings, Setting
from linmed.paper.ledger import ledger
from linmed.paper.output import OutputError
from linmed.paper.run import EXPERIMENTS, Report, run

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
