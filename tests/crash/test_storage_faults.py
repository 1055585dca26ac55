"""A disk that is full, fails, is locked, is read-only or is somebody else's: the stated outcome, and nothing lost or repeated.

The life that meets the fault is a real process that runs the command line on a failing VFS; the lives after it have a good
disk. What happened outside is read from a letterbox that no ledger knows of.
"""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.failing_disk import FAULT_VARIABLE, two_mails, two_mails_at_once
from tests.crash.support import ROOT, Ended, Launcher, LedgerFile

QUICK = perdure.Tuning(quiet_seconds=0.02, first_retry_seconds=0.001)
STORE_UNUSABLE, IN_DOUBT = 4, 7
BOTH = ["first", "second"]
MAINS: dict[str, Callable[..., Any]] = {"two_mails": two_mails, "two_mails_at_once": two_mails_at_once}
EVERY_MAIN = pytest.mark.parametrize("main", list(MAINS))
COMMAND_LINE = """
import sys
import tests.crash.failing_disk
from perdure.cli.main import main
sys.exit(main())
"""


class Place:
    """One state directory with its letterbox."""

    def __init__(self, folder: Path) -> None:
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
            env={**os.environ, FAULT_VARIABLE: plan(**fault), "PYTHONPATH": str(ROOT)},
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
        out, err = process.communicate(say, timeout=20)
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


@pytest.fixture
def place(quick_folder: Path) -> Place:
    """Where a test's ledger is."""
    return Place(quick_folder)


# --- disk full, or failing -------------------------------------------------------------------------------------------


@EVERY_MAIN
@pytest.mark.parametrize("what", ["full", "io", "sync"])
def test_a_tool_is_not_called_when_its_intent_cannot_be_written(place: Place, main: str, what: str) -> None:
    ended = place.live(main, what=what, at="start")
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert "error[PERDURE-403]" in ended.stderr
    assert place.posted() == []
    # Whether the commit whose sync failed is there after all is known only to whoever opens the file again.
    assert place.recover(main) in ((0, 1, 2) if what == "sync" else (0,))


@EVERY_MAIN
@pytest.mark.parametrize("what", ["full", "io", "sync"])
def test_a_receipt_that_cannot_be_written_is_printed_and_the_call_is_in_doubt(
    place: Place, main: str, what: str
) -> None:
    ended = place.live(main, what=what, at="second")
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert sorted(place.posted()) == BOTH
    lines = resolve_lines(ended)
    lost = [what for what, status in place.statuses().items() if status != "succeeded"]
    assert len(lines) == len(lost) > 0, ended.stderr
    if what != "sync":
        assert all(f"{line[1]} (mail) succeeded" in ended.stderr for line in lines)
        outcome = place.resume(main)
        assert (outcome.reason, outcome.exit_code) == ("in_doubt", IN_DOUBT)
        assert len(outcome.waiting_for) == len(lost)
        for line in lines:
            assert finish(place.command(*line)).exit_code == 0
        assert place.recover(main) == 0
    place.recover(main)


def test_a_receipt_and_the_next_intent_that_share_a_commit_fail_together(place: Place) -> None:
    ended = place.live("two_mails", what="full", at="first")
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert place.posted() == ["first"]
    assert [line[:3] for line in resolve_lines(ended)] == [["resolve", "job.1", "--happened"]]
    assert place.statuses() == {"first": "running"}
    assert place.recover("two_mails") == 1


def test_a_ledger_that_cannot_be_opened_for_writing_is_refused(place: Place) -> None:
    ended = place.live("two_mails", what="read_only")
    assert (ended.exit_code, place.posted()) == (STORE_UNUSABLE, []), ended
    with perdure.open(state_dir=place.state) as engine:
        assert engine.runs() == []
    ended = place.live("two_mails", what="read_only")
    assert (ended.exit_code, place.posted()) == (STORE_UNUSABLE, []), ended
    assert "error[PERDURE-40" in ended.stderr
    assert place.recover("two_mails") == 0


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(perdure.StoreError, match="cannot be made") as refused:
        perdure.open(state_dir=tmp_path / "file" / "state")
    assert refused.value.exit_code == STORE_UNUSABLE


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """Forks lives quickly."""
    started = Launcher()
    yield started
    started.stop()


@EVERY_MAIN
@pytest.mark.parametrize("what", ["full", "io", "sync"])
def test_a_receipt_with_a_commit_of_its_own_is_not_lost_in_silence_either(
    place: Place, launcher: Launcher, main: str, what: str
) -> None:
    order = place.order(main, strict_receipts=True)
    ended = launcher.live(order, {FAULT_VARIABLE: plan(what=what, at="second")})
    assert (ended.exit_code, ended.says["error"]) == (STORE_UNUSABLE, "StorageFault"), ended
    lost = [call for call in LedgerFile(place.state).calls() if call.status != "succeeded"]
    assert lost or what == "sync"
    for call in lost:
        assert f"{call.tool_call_id} (mail) succeeded, and its receipt could not be stored" in ended.says["message"]
    assert sorted(place.posted()) == BOTH
    assert place.recover(main) == len(lost)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("main", ["two_mails"])
@pytest.mark.parametrize(("what", "step"), [("full", 5), ("io", 5), ("sync", 1)])
def test_any_operation_of_a_life_may_fail(
    quick_folder: Path, launcher: Launcher, main: str, what: str, step: int
) -> None:
    """From the opening of a new ledger on: each sync, and every fifth of all operations (SQLite writes a page in two)."""
    ends: Counter[int] = Counter()
    asked = number = 0
    fired = True
    while fired:
        number += step
        folder = quick_folder / f"{number}"
        folder.mkdir()
        place = Place(folder)
        ended = launcher.live(place.order(main), {FAULT_VARIABLE: plan(what=what, at="open", number=number)})
        fired = not ended.stderr.rstrip().endswith(" 0")
        assert ended.exit_code in (0, STORE_UNUSABLE), (number, ended)
        assert fired or ended.exit_code == 0
        ends[ended.exit_code] += 1
        assert Counter(place.posted()) <= Counter(BOTH), (number, ended)
        asked += place.recover(main)
    assert ends[STORE_UNUSABLE] > 10
    assert ends[0] >= 1
    assert asked >= 1


# --- locked, replaced, forked ----------------------------------------------------------------------------------------


@EVERY_MAIN
def test_nothing_is_sent_while_another_process_holds_the_ledger_past_the_timeout(place: Place, main: str) -> None:
    life = place.start(main, what="locked", at="start")
    assert life.stdout is not None and life.stdout.readline() == "ready\n"
    with closing(sqlite3.connect(place.ledger, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = finish(life, "go\n")
        other.execute("ROLLBACK")
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert "locked" in ended.stderr
    assert (place.posted(), place.statuses()) == ([], {})
    assert place.recover(main) == 0


@pytest.mark.parametrize(("at", "posted"), [("start", []), ("first", ["first"])])
def test_nothing_more_is_sent_once_another_file_stands_where_the_ledger_was(
    place: Place, at: str, posted: list[str]
) -> None:
    ended = place.live("two_mails", what="replaced", at=at)
    assert ended.exit_code == STORE_UNUSABLE, ended
    assert "replaced or removed" in ended.stderr
    assert place.posted() == posted
    assert len(resolve_lines(ended)) == len(posted), ended.stderr


FORKING = """
import os, sys
import perdure
from tests.crash.failing_disk import mail

def main(run):
    outside = run.inputs["outside"]
    first = mail(outside, "first")["sent"]
    child = os.fork()
    if child == 0:
        try:
            mail(outside, "of the child")
        except perdure.StoreError as refused:
            print("refused:", refused, flush=True)
        sys.exit(3)  # by way of every with-block and every finaliser
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (3, 4)
    return [first, mail(outside, "second")["sent"]]
"""


def test_a_forked_child_sends_nothing_and_harms_nothing(place: Place) -> None:
    job = place.state / "forking.py"
    job.write_text(FORKING)
    ended = finish(place.command("run", f"{job}:main", "--run-id", "job", "-i", f"outside={place.letterbox}"))
    assert ended.exit_code == 0, ended
    assert "refused: this process was forked" in ended.stdout
    assert place.posted() == BOTH
    assert place.statuses() == {"first": "succeeded", "second": "succeeded"}
    assert place.recover("two_mails") == 0


FORKED_WHILE_BUSY = """
import os, signal, sys, threading
from perdure.model.errors import StoreError
from perdure.ports.clock import SystemClock
from perdure.runtime.ledger import Ledger
from perdure.store.open import open_store

ledger = Ledger(open_store(sys.argv[1], SystemClock()))
busy, go = threading.Event(), threading.Event()

def occupy(store):
    busy.set()
    go.wait()
    store.set_meta("parent", "done")

ledger.submit(occupy, lambda member: None)
busy.wait()
child = os.fork()
if child == 0:
    signal.alarm(5)
    for use in (ledger.run, ledger.read):
        try:
            use(lambda store: store.set_meta("child", "done"))
        except StoreError as refused:
            print("refused:", refused, flush=True)
    ledger.close()
    os._exit(0)
print("child:", os.waitpid(child, 0)[1])
go.set()
print(ledger.read(lambda store: [store.meta("parent"), store.meta("child")]))
ledger.close()
"""


def test_a_child_that_is_forked_in_the_middle_of_a_commit_does_not_wait_for_ever(place: Place) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED_WHILE_BUSY, str(place.ledger)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, refused_too, child, rows = ran.stdout.splitlines()
    assert "forked" in refused and "forked" in refused_too
    assert (child, rows) == ("child: 0", "['done', None]")


# --- damaged payloads ------------------------------------------------------------------------------------------------

LONG = "a long letter " * 3000
LETTERS = """
import os, sys
from perdure import tool

@tool(side_effect_class="external", scope=["what"], key_ttl="24h")
def letter(outside: str, what: str, text: str) -> dict:
    with open(outside, "a") as letterbox:
        letterbox.write(what + "\\n")
    if os.environ.get("DIES_IN") == what:
        os._exit(137)
    return {"copy": text[::-1]}

def main(run):
    done = [letter(run.inputs["outside"], what, "a long letter " * 3000)["copy"][:5] for what in ("first", "second")]
    return done
"""
DAMAGE = [
    "UPDATE payloads SET bytes = substr(bytes, 1, 999)",
    "UPDATE payloads SET bytes = x'00'",
    "DELETE FROM payloads",
]


@pytest.mark.parametrize(("dies_in", "damage"), [*(("first", damage) for damage in DAMAGE), ("second", DAMAGE[0])])
def test_a_damaged_payload_stops_the_run_and_is_never_made_up_by_doing_it_again(
    place: Place, dies_in: str, damage: str
) -> None:
    """The first mail's request cannot be sent again with its key, or its receipt cannot be met; the key would allow both."""
    job = place.state / "letters.py"
    job.write_text(LETTERS)
    run = [sys.executable, "-m", "perdure", "run", f"{job}:main", "--run-id", "job", "-i", f"outside={place.letterbox}",
           "--state-dir", str(place.state)]  # fmt: skip
    assert subprocess.run(run, env={**os.environ, "DIES_IN": dies_in}, check=False).returncode == 137
    before = place.posted()
    with closing(sqlite3.connect(place.ledger)) as db:
        assert db.execute(damage).rowcount > 0
        db.commit()
    again = subprocess.run(run, capture_output=True, text=True, check=False)
    assert again.returncode == STORE_UNUSABLE, again
    assert "missing or damaged" in again.stderr
    assert place.posted() == before
