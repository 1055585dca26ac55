"""One ledger whose disk fails by a plan: lives of the command line on it, and what is in the letterbox outside."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.failing_disk import FAULT_VARIABLE, two_mails, two_mails_at_once
from tests.crash.support import ROOT, Ended, LedgerFile, planted

QUICK = perdure.Tuning(quiet_seconds=0.02, first_retry_seconds=0.001)
STORE_UNUSABLE, IN_DOUBT = 4, 7
BOTH = ["first", "second"]
MAINS: dict[str, Callable[..., Any]] = {"two_mails": two_mails, "two_mails_at_once": two_mails_at_once}
EVERY_MAIN = pytest.mark.parametrize("main", list(MAINS))
COMMAND_LINE = """
import os, sys
import tests.crash.failing_disk
from perdure.cli.main import main
if os.environ.get("CRASH_LOOP_PLANTED_BUG"):
    from tests.crash.planting import plant
    plant(os.environ["CRASH_LOOP_PLANTED_BUG"])
sys.exit(main())
"""


class Place:
    """One state directory with its letterbox; its commands may have a planted bug."""

    def __init__(self, folder: Path, bug: str | None = None) -> None:
        self._planted = planted(bug)
        self.state = folder / "state"
        self.state.mkdir()
        self.letterbox = self.state / "letterbox"
        self.ledger = self.state / "runtime_state.db"

    def start(self, main: str, **fault: Any) -> "subprocess.Popen[str]":
        """Start a life of run `job` from the command line, on a disk that fails by a plan."""
        job = self.state / f"{main}.py"
        job.write_text(f"from tests.crash.failing_disk import {main}\n")
        return self.command("run", f"{job}:{main}", "--run-id", "job", "-i", f"outside={self.letterbox}", **fault)

    def command(self, *words: str, **fault: Any) -> "subprocess.Popen[str]":
        """Start a command on a disk that fails by a plan."""
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND_LINE, *words, "--state-dir", str(self.state)], cwd=ROOT, text=True,
            env={**os.environ, FAULT_VARIABLE: plan(**fault), "PYTHONPATH": str(ROOT), **self._planted},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def live(self, main: str, **fault: Any) -> Ended:
        """Live a whole life on a failing disk."""
        return finish(self.start(main, **fault))

    def order(self, main: str, **tuning: Any) -> Order:
        """The same job for a forked life."""
        inputs = {"outside": str(self.letterbox)}
        return Order(str(self.state), f"tests.crash.failing_disk:{main}", inputs=inputs, tuning=tuning)

    def posted(self) -> list[str]:
        """What is in the letterbox."""
        return self.letterbox.read_text().split() if self.letterbox.exists() else []

    def statuses(self) -> dict[str, str]:
        """The state of each mail by its name, read from outside."""
        return {call.what: call.status for call in LedgerFile(self.state).calls()}

    def resume(self, main: str) -> perdure.Outcome:
        """Go on in this process, on a good disk."""
        with perdure.open(state_dir=self.state, tuning=QUICK) as engine:
            if any(run.run_id == "job" for run in engine.runs()):
                return engine.resume("job", main=MAINS[main])
            return engine.run(MAINS[main], {"outside": str(self.letterbox)}, run_id="job")

    def recover(self, main: str) -> int:
        """Go on until the run has ended, with a person who looks into the letterbox; return how often that was needed."""
        asked = 0
        while (outcome := self.resume(main)).status == "waiting":
            assert outcome.exit_code == IN_DOUBT, outcome
            with perdure.open(state_dir=self.state) as engine:
                for item in outcome.waiting_for:
                    asked += 1
                    assert item.tool_call_id is not None
                    what = json.loads(engine.call(item.tool_call_id)["request"])["what"]
                    did = what in self.posted()
                    says = "happened" if did else "did_not_happen"
                    engine.resolve(item.tool_call_id, says, result={"sent": what} if did else None)
        assert (outcome.status, outcome.result) == ("succeeded", BOTH), outcome
        assert sorted(self.posted()) == BOTH
        with closing(sqlite3.connect(self.ledger)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return asked


def plan(**fault: Any) -> str:
    """A plan as the environment holds it."""
    return json.dumps(fault)


def finish(process: "subprocess.Popen[str]", say: str = "") -> Ended:
    """Wait for a life and return how it ended; it must not have ended with a traceback."""
    try:
        out, err = process.communicate(say, timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert "Traceback" not in err, err
    return Ended(process.returncode, out, err)


def resolve_lines(ended: Ended) -> list[list[str]]:
    """The commands for receipts that could not be stored, as a shell would read them."""
    found = [line.partition("next: ")[2] for line in ended.stderr.splitlines() if " resolve " in line]
    commands = [shlex.split(command) for line in found for command in line.split(" && ")]
    assert all(words[:2] == ["perdure", "--state-dir"] for words in commands), commands
    return [words[3:] for words in commands]
