"""Starts the processes of a crash test: forked from one that has imported the library, each with a report file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure.config.settings import HOME_VARIABLE, POLICIES_VARIABLE, STORE_VARIABLE
from perdure.runtime.crashpoints import PREFIX
from perdure.testing.crashtest.order import Order
from perdure.testing.errors import CrashTestError
from perdure.testing.launcher import Start
from perdure.testing.starter import Starter, StarterEnded, crashed_at, points_passed

ENTRY = "perdure.testing.crashtest.child:obey"
# What a job file, a policy file, a stand-in and an answer need: half a second of imports that each life would pay.
PRELOAD = (
    "perdure.config.job_schema",
    "perdure.config.policy_schema",
    "perdure.testing.crashtest.person",
    "perdure.testing.crashtest.stand_ins",
    "ruamel.yaml",
)
AT_POINT = f"{PREFIX}AT_POINT"
AFTER_TOOL = f"{PREFIX}AFTER_TOOL"
_OURS = {HOME_VARIABLE, POLICIES_VARIABLE, STORE_VARIABLE, "PERDURE_SENDER"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How one process ended, as its parent saw it.

    Args:
        where: what the crash knob says it stood before or after; None where it did not fire.
        points: numbered points that were passed without a crash, where the knob was set.
        told: its report; empty if it was killed before it wrote one.
    """

    exit_code: int
    too_long: bool
    where: str | None
    points: int | None
    told: Mapping[str, Any]
    stderr: str
    seconds: float

    @property
    def document(self) -> Mapping[str, Any]:
        """Where the run stood at the end of this life, or the error that ended it."""
        document: Mapping[str, Any] = self.told.get("document", {})
        return document


class Forks:
    """Starts one process after the other; use it with ``with``, and one of them for each thread.

    Args:
        folder: for reports.
        seconds: how long a process may last.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._count = 0
        self._starter = Starter(ENTRY, PRELOAD, environment())

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        self._starter.stop()

    def go(self, order: Order, knob: Mapping[str, str] | None = None) -> Ended:
        """Carry out one order in a process of its own.

        Args:
            knob: the crash knob that kills it, if any.

        Raises:
            CrashTestError: the process that starts them has ended.
        """
        self._count += 1
        report = self._folder / f"told-{id(self):x}-{self._count}.json"
        start = Start(
            order=replace(order, report=str(report)).as_members(),
            environ={**environment(), **(knob or {})},
            folder=os.getcwd(),
            seconds=self._seconds,
        )
        began = time.monotonic()
        try:
            answer = self._starter.ask(start)
        except StarterEnded as problem:
            raise CrashTestError(str(problem)) from None
        told: dict[str, Any] = json.loads(report.read_text("utf-8")) if report.exists() else {}
        report.unlink(missing_ok=True)
        where = crashed_at(answer)
        return Ended(
            exit_code=answer["exit_code"],
            too_long=answer["too_long"],
            where=where,
            points=points_passed(answer),
            told={} if where is not None else told,
            stderr=answer["stderr"],
            seconds=time.monotonic() - began,
        )


def environment() -> dict[str, str]:
    """Return the environment of the lives: the caller's, for the job may need it, without where his ledger is."""
    return {name: value for name, value in os.environ.items() if name not in _OURS and not name.startswith(PREFIX)}
