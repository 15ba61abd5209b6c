"""Record which rules judged which runs: commits where there is a checkout, the rules' digest everywhere."""

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from linmed import __version__
from linmed.paper import claims, rules, statistics
from linmed.paper.output import Output

JUDGES = [Path(str(module.__file__)) for module in (rules, claims, statistics)]
"""What the claims are, and how they are judged."""
RUNS = "runs.json"


@dataclass(frozen=True)
class Origin:
    """The state of the code at one run."""

    began: str
    """UTC."""
    version: str
    commit: str
    """Of the whole tree; empty outside a checkout, ending in + where files were changed since."""
    rules_commit: str
    """Of the last change of the rules; the same."""
    rules_digest: str


def now() -> Origin:
    """Describe this run, and the rules that judge it."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in JUDGES)).hexdigest()[:12]
    return Origin(began, __version__, _commit([]), _commit(JUDGES), digest)


def remember(output: Output, origin: Origin) -> list[Origin]:
    """Return all runs that the directory's results come from, this one last."""
    path = output.path / RUNS
    try:
        earlier = [Origin(**record) for record in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        earlier = []
    except (OSError, ValueError, TypeError):  # damaged: where the results came from is not known
        earlier = [Origin("unknown", "unknown", "", "", "")]
    runs = [*earlier, origin]
    output.write(RUNS, json.dumps([asdict(run) for run in runs], indent=1))
    return runs


def words(runs: list[Origin]) -> str:
    """Say what a reader who wants to cite the ledger should know."""
    first, last = runs[0], runs[-1]
    judged = (
        f"Judged on {last.began[:10]} at {_named(last.commit)} by the rules of {_named(last.rules_commit)} "
        f"(sha256 {last.rules_digest}…)"
    )
    played = f"trials played since {first.began} at {_named(first.commit)}"
    if len({run.commit for run in runs}) > 1:
        played += f" to {_named(last.commit)}"
    changed = len({run.rules_digest for run in runs}) > 1
    warning = " The rules were changed after the first of these trials had been played." if changed else ""
    return f"{judged}; {played}.{warning}"


def _named(commit: str) -> str:
    return f"commit {commit}" if commit else f"linmed {__version__}, outside a checkout"


def _commit(files: list[Path]) -> str:
    """The last commit that changed one of these; of the whole tree without any."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(top), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    top, names = JUDGES[0].parent, [str(file) for file in files]
    try:
        git("ls-files", "--error-unmatch", *map(str, JUDGES))  # a checkout of something else is none
        top = Path(git("rev-parse", "--show-toplevel"))
        commit = git("log", "-1", "--format=%h", "--", *names)
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *names)
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit + ("+" if changed else "")
