"""Keep the output directory: ours or empty, and nothing half-written in it."""

import json
from pathlib import Path

from linmed import __version__
from linmed.files import write_atomically

MARKER = "linmed-report.json"


class OutputError(ValueError):
    """The directory cannot be used; the message says why.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = Path(folder, "letters.txt").write_text("mine")
    ...     try:
    ...         Output(folder)
    ...     except OutputError:
    ...         print("that directory holds something else")
    that directory holds something else
    """


class Output:
    """A report's directory: `report.html`, `ledger.json`, `figures/`, and the results to resume from."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path} is a file; give a directory")
        if not (self.path / MARKER).exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise OutputError(
                    f"{self.path} holds files that are not a report of linmed's and is left untouched: "
                    "give an empty or a new directory"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self.write(MARKER, json.dumps({"format": 1, "linmed": __version__}))
        (self.path / "figures").mkdir(exist_ok=True)
        self.report, self.ledger = self.path / "report.html", self.path / "ledger.json"
        self.store, self.offline = self.path / "results", self.path / "offline"
        """Finished trials, of simulations and of the offline evaluation."""

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file completely or not at all."""
        return write_atomically(self.path / name, content.encode() if isinstance(content, str) else content)
