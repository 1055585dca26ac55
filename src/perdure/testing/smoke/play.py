"""The smoke run from its first life to its last, and the facts that are judged."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.config.settings import DATABASE_NAME
from perdure.testing.errors import SmokeError
from perdure.testing.provider.client import Provider, ProviderError
from perdure.testing.smoke.checks import ASKED, REPORT, Check, judge
from perdure.testing.smoke.facts import Facts, read_ledger, sha256_of
from perdure.testing.smoke.lives import CRASHED, Lives

RUN_ID = "smoke"
JOB = Path(__file__).resolve().parent / "job" / "smoke_job.py"
KNOB = "PERDURE_TEST_CRASH_AFTER_TOOL"
WORST_MOMENTS = ("store_report", "pay", "send_mail", "post_notice")
IN_DOUBT = 7
SIGKILLED = -9
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Played:
    """One smoke test that was carried out.

    Args:
        folder: the ledger, the workspace, and the log of the provider.
    """

    folder: Path
    checks: tuple[Check, ...]
    facts: Facts
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every line of the checklist is right."""
        return all(check.ok for check in self.checks)


def play(folder: Path, *, policies: Sequence[Path], tell: Tell, resume_command: str) -> Played:
    """Carry the smoke test out; every process that was started is gone afterwards.

    Args:
        folder: empty; everything is kept in it.
        policies: overlays on top of the job's rules.
        tell: is given one line for each thing that happens.
        resume_command: what a person would type to go on with the run.

    Raises:
        SmokeError: it could not be carried out.
    """
    began = time.monotonic()
    try:
        with Provider(folder / "provider.jsonl", fsync=False) as provider:
            stage = _Stage(folder, provider, Lives(folder, policies), tell)
            tell(f"run id          {RUN_ID}")
            tell(f"resume command  {resume_command}")
            facts = stage.perform()
    except ProviderError as problem:
        raise SmokeError(f"the provider did not do its part: {problem}") from problem
    except sqlite3.Error as problem:
        raise SmokeError(f"the ledger of the smoke run cannot be read: {problem}") from problem
    return Played(folder, tuple(judge(facts)), facts, time.monotonic() - began)


class _Stage:
    def __init__(self, folder: Path, provider: Provider, lives: Lives, tell: Tell) -> None:
        self._folder = folder
        self._provider = provider
        self._lives = lives
        self._tell = tell

    def perform(self) -> Facts:
        start = ["run", f"{JOB}:main", "-i", f"url={json.dumps(self._provider.url)}", "--run-id", RUN_ID]
        resume = ["resume", RUN_ID]
        for number, tool in enumerate(WORST_MOMENTS):
            why = f"killed after {tool}: result received, receipt not stored"
            self._live(start if number == 0 else resume, CRASHED, why, knob={KNOB: tool})
        self._live(resume, IN_DOUBT, f"{ASKED} has no probe and no key: the run waits for a person")
        asked, answer = self._look()
        why = "killed with SIGKILL while the second reminder's reply was on its way"
        self._live(answer or resume, SIGKILLED, why, until=self._second_reminder_is_held())
        self._provider.release()
        self._live(resume, 0, "ends by itself")
        before = self._state()
        self._live(resume, 0, "one more resume of the finished run")
        return Facts(
            lives=tuple(self._lives.lived),
            asked_about=asked,
            unchanged=self._state() == before,
            file_sha256=sha256_of(self._folder / "workspaces" / RUN_ID / REPORT),
            ledger=read_ledger(self._folder / DATABASE_NAME, RUN_ID),
            effects=tuple(self._provider.effects()),
        )

    def _live(self, arguments: Sequence[str], expected: int, why: str, **how: Any) -> None:
        life = self._lives.live(arguments, expected, why, **how)
        was = f"exit {life.exit_code}" if life.exit_code >= 0 else f"signal {-life.exit_code}"
        note = "" if life.as_expected else f"  ← must be {expected}"
        self._tell(f"life {len(self._lives.lived)}  pid {life.pid}  perdure {arguments[0]}: {was}{note}  ({why})")

    def _second_reminder_is_held(self) -> Callable[[], bool]:
        self._provider.control("keyed", what="remind", skip=1, hold=True)
        return lambda: any(line["event"] == "held" for line in self._provider.log())

    def _look(self) -> tuple[tuple[str, ...], Sequence[str]]:
        """Look into the provider's log as a person would; return what there were questions about, and the answer."""
        ledger = read_ledger(self._folder / DATABASE_NAME, RUN_ID)
        calls = {row.tool_call_id: row.tool_name for row in ledger.rows}
        answer: Sequence[str] = ()
        for kind, call_id in ledger.questions:
            seen = self._provider.effects(what=calls[call_id])
            self._tell(f"a person looks into the provider's log, which has {calls[call_id]} {len(seen)} times")
            if kind == "in_doubt":
                says = ["--happened", "--result", json.dumps(seen[0]["id"])] if seen else ["--did-not-happen"]
                answer = ["resolve", call_id, *says, "--reason", "the provider's log was looked at", "--resume"]
        return tuple(calls[call_id] for _, call_id in ledger.questions), answer

    def _state(self) -> tuple[object, int]:
        ledger = read_ledger(self._folder / DATABASE_NAME, RUN_ID)
        return ledger.rows, len(self._provider.effects())
