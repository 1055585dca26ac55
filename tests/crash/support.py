"""Processes, ledgers and people for the crash tests."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import perdure
from perdure.testing.provider.effect_log import Line
from tests.crash.child import PLANT_VARIABLE, Order

ROOT = Path(__file__).resolve().parents[2]
AT_POINT = "PERDURE_TEST_CRASH_AT_POINT"
AFTER_TOOL = "PERDURE_TEST_CRASH_AFTER_TOOL"
CRASHED = 137
_STARTED: list[subprocess.Popen[str]] = []
_FIRED = re.compile(r"^PERDURE CRASH (?:at point \d+: )?(.*)$", re.MULTILINE)
_UNFIRED = re.compile(r"crash knob did not fire: .*; (\d+) points were passed")


@dataclass(frozen=True)
class Ended:
    """How one life ended, as its parent saw it."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def crashed_at(self) -> str | None:
        """What the crash knob says it stood before or after, or None where it did not fire."""
        found = _FIRED.search(self.stderr)
        return found[1] if found and self.exit_code == CRASHED else None

    @property
    def points_passed(self) -> int:
        """How many numbered points the life passed without a crash, as it says itself."""
        found = _UNFIRED.search(self.stderr)
        assert found is not None, f"neither a crash nor a word about the knob: {self}"
        return int(found[1])

    @property
    def says(self) -> dict[str, Any]:
        """The outcome that the life printed."""
        assert self.stdout, f"a life ended without a word: {self}"
        document: dict[str, Any] = json.loads(self.stdout)
        return document


class Launcher:
    """Forks lives from a process that has imported the library already; one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.launcher"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def live(
        self, order: Order, environ: dict[str, str] | None = None, started: Callable[[int], None] | None = None
    ) -> Ended:
        """Let one life be lived and return how it ended; `started` is called with its pid, while it lives."""
        pipe_in = self._process.stdin
        assert pipe_in is not None
        request = {"order": json.loads(order.text), "environ": environ or {}, "announce": started is not None}
        pipe_in.write(json.dumps(request) + "\n")
        pipe_in.flush()
        if started is not None:
            started(self._answer()["pid"])
        answer = self._answer()
        return Ended(answer["exit_code"], answer["stdout"], answer["stderr"])

    def _answer(self) -> dict[str, Any]:
        pipe_out = self._process.stdout
        line = pipe_out.readline() if pipe_out is not None else ""
        assert line, "the launcher has ended; its own message is on stderr"
        return dict(json.loads(line))

    def stop(self) -> None:
        """End the launcher."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def start_life(order: Order, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a life in an interpreter of its own, to be killed, stopped or raced from outside."""
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.child", order.text], cwd=ROOT, text=True,
        env={**os.environ, **(environ or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    _STARTED.append(started)
    return started


def end_started_lives() -> None:
    """End what a test that failed has left behind, so that it troubles no other test."""
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for a started life and return how it ended."""
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)


@dataclass(frozen=True)
class Call:
    """One row of `tool_calls`, as anyone may read it."""

    tool_call_id: str
    tool_name: str
    status: str
    replay_policy: str
    attempt: int
    arguments: dict[str, Any] = field(hash=False)

    @property
    def what(self) -> str:
        """The logical effect that the call stands for, as the provider knows it."""
        return str(self.arguments.get("what", self.arguments.get("x", "")))


class LedgerFile:
    """Reads the ledger of one state directory from outside, with plain SQL."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "runtime_state.db"

    def calls(self) -> list[Call]:
        """The tool calls (not the memos), oldest first."""
        sql = (
            "SELECT tool_call_id, tool_name, status, replay_policy, attempt, request_ref FROM tool_calls "
            "WHERE tool_namespace = 'local' ORDER BY call_no"
        )
        with self._open() as db:
            return [Call(*row[:5], json.loads(row[5])) for row in db.execute(sql)] if _is_made(db) else []

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table."""
        with self._open() as db:
            tables = [str(row[0]) for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}

    def column(self, name: str) -> list[Any]:
        """One column of `tool_calls`, oldest first."""
        return [row[0] for row in self.ask(f"SELECT {name} FROM tool_calls ORDER BY call_no")]

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows that a query finds; a ledger that is not there yet is an empty database."""
        with self._open() as db:
            return db.execute(sql).fetchall()

    def kin_shown(self, approval_id: str) -> list[str]:
        """The effects that a challenge lists."""
        with self._open() as db:
            sql = "SELECT detail FROM approvals WHERE approval_id = ?"
            return list(json.loads(db.execute(sql, [approval_id]).fetchone()[0])["kin"])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        there = self.path.exists()
        address = f"file:{self.path}?mode=ro" if there else ":memory:"
        with closing(sqlite3.connect(address, uri=there)) as db:
            yield db


def _is_made(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'tool_calls'").fetchone()[0])


class LogReader:
    """Reads a provider's log as it grows, each line once; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_bytes = 0
        self._lines: list[Line] = []

    def lines(self) -> list[Line]:
        """Every complete line so far."""
        with self._lock, self._path.open("rb") as file:
            file.seek(self._read_bytes)
            grown = file.read()
            whole = grown[: grown.rfind(b"\n") + 1]
            self._read_bytes += len(whole)
            self._lines += [json.loads(line) for line in whole.splitlines()]
            return list(self._lines)


class Person:
    """Somebody who looks at the provider's log before answering."""

    def __init__(self, state_dir: Path, log: LogReader) -> None:
        self._state_dir = state_dir
        self._log = log
        self._ledger = LedgerFile(state_dir)

    def answer(self, waiting_for: list[dict[str, Any]]) -> list[str]:
        """Answer everything that waits, and return what was said."""
        with perdure.open(state_dir=self._state_dir) as engine:
            answers = {"approval": self._approve, "challenge": self._compare, "in_doubt": self._tell}
            return [answers[item["kind"]](engine, item) for item in waiting_for]

    def _call(self, tool_call_id: str) -> Call:
        return next(call for call in self._ledger.calls() if call.tool_call_id == tool_call_id)

    @staticmethod
    def _approve(engine: perdure.Engine, item: dict[str, Any]) -> str:
        engine.approve(item["id"])
        return "approved"

    def _compare(self, engine: perdure.Engine, item: dict[str, Any]) -> str:
        """It is the same if one of the effects that are shown has the same name."""
        call = self._call(item["tool_call_id"])
        shown = [self._call(kin) for kin in self._ledger.kin_shown(item["id"])]
        same = [kin.tool_call_id for kin in shown if kin.what == call.what]
        says = "same" if same else "another"
        engine.resolve(call.tool_call_id, says, same_as=same[-1] if same else None)
        return says

    def _tell(self, engine: perdure.Engine, item: dict[str, Any]) -> str:
        """It happened if the provider saw more effects of that name than the ledger has receipts for."""
        call = self._call(item["tool_call_id"])
        receipts = [c for c in self._ledger.calls() if c.what == call.what and c.status == "succeeded"]
        effects = [line for line in self._log.lines() if line["event"] == "effect" and line["what"] == call.what]
        if len(effects) <= len(receipts):
            engine.resolve(call.tool_call_id, "did_not_happen")
            return "did_not_happen"
        found = effects[len(receipts)]
        engine.resolve(call.tool_call_id, "happened", result=found["reply"]["body"], ref=found["id"])
        return "happened"


def planted(name: str | None) -> dict[str, str]:
    """The environment in which a life has a planted bug."""
    return {} if name is None else {PLANT_VARIABLE: name}
