"""What the soak adds up, and how it tells it."""

from __future__ import annotations

import platform
import resource
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

import perdure
from tests.crash.support import ROOT
from tests.soak.player import Played

COUNTED = tuple(item.name for item in fields(Played) if item.type == "int")
MUST_BE_ZERO = ("duplicates", "losses", "stuck", "usurped")


def cpu_seconds() -> float:
    """What this process and all processes that have ended under it have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


@dataclass
class Figures:
    """The sums over all schedules."""

    sums: Counter[str] = field(default_factory=Counter)
    by_section: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    cpu_before: float = field(default_factory=cpu_seconds)

    def add(self, section: str, played: Played) -> None:
        """Add one schedule."""
        self.by_section[section] += 1
        for name in COUNTED:
            self.sums[name] += getattr(played, name)
        if played.problems:
            self.failed.append(played.label)

    @property
    def broken(self) -> bool:
        """Whether some schedule broke the promise, or nothing was done at all."""
        return bool(self.failed) or not self.sums["receipts"]

    def flat(self, seconds: float) -> dict[str, Any]:
        """Everything as one flat JSON object."""
        schedules = sum(self.by_section.values())
        lives = self.sums["lives"]
        return {
            "schedules": schedules,
            **{f"schedules_{name}": count for name, count in sorted(self.by_section.items())},
            **{name: self.sums[name] for name in COUNTED},
            "receipts_per_life": round(self.sums["receipts"] / lives, 3) if lives else 0.0,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu_seconds() - self.cpu_before, 1),
            "schedules_per_second": round(schedules / seconds, 2),
        }

    def line(self, seconds: float) -> str:
        """The sums in one line."""
        flat = self.flat(seconds)
        names = ("schedules", "kills", "lives", "effects", "duplicates", "losses", "stuck", "usurped", "needless")
        told = ", ".join(f"{flat[name]} {name}" for name in names)
        return (
            f"{told} (of {flat['questions']} questions), {flat['receipts_per_life']} receipts a life, {seconds:.0f} s"
        )


def surroundings() -> dict[str, Any]:
    """What was tested, and on what."""
    import apsw

    return {
        "perdure": perdure.__version__,
        "commit": _output("git", "rev-parse", "HEAD"),
        "commit_is_clean": _output("git", "status", "--porcelain", "--", "src", "tests") == "",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "strace": _output("strace", "-V").partition("\n")[0].removeprefix("strace -- version "),
    }


def _output(*command: str) -> str:
    """What a command says, or nothing where it is not there."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
