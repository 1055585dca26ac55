"""The end of the show: is every count right, and where to look closer."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from perdure.demo.counts import problems, table
from perdure.demo.show import RUN_ID, Seen


def judge(seen: Seen) -> list[str]:
    """Return everything that is not as it must be."""
    run = seen.run
    found = problems(seen.counts, Path(run["workspace"]) / "report.pdf")
    if run["status"] != "succeeded":
        found.append(f"the run is {run['status']}" + (f" ({run['reason']})" if run["reason"] else ""))
    if seen.kills != seen.planned:
        found.append(f"{seen.kills} lives were killed, not {seen.planned}")
    if run["duplicates_found"] or run["unmet"]:
        found.append(f"the ledger lists {run['duplicates_found']} duplicates and {run['unmet']} unmet effects")
    return found


def document(seen: Seen) -> dict[str, Any]:
    """Return the ``perdure.demo/v1`` document."""
    return {
        "schema": "perdure.demo/v1",
        "kills": seen.kills,
        "lives": seen.lives,
        "reports": len(seen.counts.reports),
        "uploads": seen.counts.uploads,
        "mails": seen.counts.mails,
        "notices": seen.counts.notices,
        "run": seen.run,
    }


def summary(seen: Seen, wrong: list[str]) -> list[str]:
    """Return the last lines: the counts, the verdict, and the commands to look closer."""
    times = "once" if seen.kills == 1 else f"{seen.kills} times"
    lived = "1 life" if seen.lives == 1 else f"{seen.lives} lives"
    happened = f"killed {times}, {lived}, {seen.seconds:.0f} s"
    said = [f"Everything happened once ({happened})."]
    if wrong:
        said = [f"This is not right ({happened}):", *(f"  ✗ {problem}" for problem in wrong)]
    return ["", "Read from the servers' own files:", "", *table(seen.counts), "", *said, "", *_closer(seen)]


def _closer(seen: Seen) -> list[str]:
    state = f"--state-dir {shlex.quote(str(seen.folder))}"
    perdure = _program()
    lines = [
        f"  the report   {Path(seen.run['workspace']) / 'report.pdf'}",
        f"  the run      {perdure} runs show {RUN_ID} {state}",
    ]
    if seen.mail_call is not None:
        lines.append(f"  the mail     {perdure} calls explain {seen.mail_call} {state}")
    return [*lines, f"  the logs     {seen.folder / 'world' / 'logs'}"]


def _program() -> str:
    """Return how ``perdure`` is called after this process has ended: by its path in a venv that nobody activated."""
    own = Path(sys.prefix) / "bin" / "perdure"
    found = shutil.which("perdure")
    is_on_path = found is not None and (Path(found) != own or os.environ.get("VIRTUAL_ENV") == sys.prefix)
    if is_on_path or not own.exists():
        return "perdure"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))
