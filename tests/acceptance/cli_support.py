"""The command ``perdure`` as a real process in a folder of its own, and an outside log of what was sent."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import FORKER

REPORT = """
import json, os, subprocess, sys
import perdure
from perdure import tool


@tool(side_effect_class="external", scope=["to"])
def send_mail(to: str, subject: str, body: str) -> dict:
    log = os.open("mails.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, (json.dumps([to, subject, body]) + "\\n").encode())
    os.close(log)
    return {"id": "m1"}


@tool(side_effect_class="external", approval="always")
def wire(cents: int) -> str:
    open("wires.log", "a").write(f"{cents}\\n")
    return "wired"


def write_report(topic):
    return f"about {topic}"


def main(run):
    text = run.memo("draft", write_report, run.inputs["topic"])
    receipt = send_mail(run.inputs["to"], "Report", text)
    return {"sent": receipt}


def pay(run):
    return wire(500)


def chatty(run):
    print("the agent talks")
    sys.stdout.write("without a newline")
    subprocess.run([sys.executable, "-c", "print('its child talks')"], check=True)
    os.write(1, b"to the descriptor")
    return main(run)


@tool(side_effect_class="read_only")
def look() -> int:
    return 1


def fickle(run):
    receipt = send_mail("boss@example.org", "Report", os.environ.get("WORDING", "reworded"))
    look()
    return receipt


def fails(run):
    send_mail(run.inputs["to"], "Report", "x")
    raise RuntimeError("out of paper")


perdure.run(main, inputs={"topic": "SQLite", "to": "boss@example.org"}, run_id="report-2026-w47")
"""
TO_BOSS = ("-i", "topic=SQLite", "-i", "to=boss@example.org")


@dataclass(frozen=True, slots=True)
class Said:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document that stdout must be."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    def is_error(self, exit_code: int, code: str) -> None:
        """Check that this is one clear error and nothing else."""
        assert self.code == exit_code, self
        assert "Traceback" not in self.err, self.err
        lines = self.err.splitlines()
        assert [line for line in lines if line.startswith("error[")] == [
            line for line in lines if line.startswith(f"error[{code}]: ")
        ], self.err
        for beginning in (f"error[{code}]: ", "  safe: ", "  next: "):
            assert sum(line.startswith(beginning) and len(line) > len(beginning) for line in lines) == 1, self.err


class Desk:
    """A folder in which somebody types commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start ``perdure`` with these words."""
        return subprocess.Popen(
            [sys.executable, "-m", "perdure", *words],
            cwd=self.folder,
            env=environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def type(self, *words: str, env: Mapping[str, str] | None = None) -> Said:
        """Run ``perdure`` with these words to its end."""
        return Said(*FORKER.type(words, self.folder, environment(env or {})))

    def paste(self, command: str) -> Said:
        """Run a printed command in a shell, as somebody who pasted it."""
        found = subprocess.run(
            f'perdure() {{ "{sys.executable}" -m perdure "$@"; }}\n{command}',
            shell=True,
            executable="/bin/bash",
            cwd=self.folder,
            env=environment({}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Said(found.returncode, found.stdout, found.stderr)

    def mails(self) -> list[list[str]]:
        """Return what the outside log of mails holds."""
        log = self.folder / "mails.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def rows(self, state_dir: str = ".perdure") -> dict[str, list[Any]]:
        """Return every row of the ledger that a command could have written."""
        path = self.folder / state_dir / "runtime_state.db"
        if not path.exists():
            return {}
        with sqlite3.connect(path) as database:
            tables = ("runs", "run_attempts", "run_steps", "tool_calls", "evidence", "approvals", "checkpoints")
            found = {table: list(database.execute(f"SELECT * FROM {table}")) for table in tables}
        database.close()
        return {table: rows for table, rows in found.items() if rows}


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that holds nothing of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "COLUMNS": "100", **extra}


def ended(process: subprocess.Popen[str], timeout_seconds: float = 60) -> Said:
    """Wait for a process and return what it left behind."""
    try:
        out, err = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running: {process.args}\n{out}\n{err}") from None
    return Said(process.returncode, out, err)


def wait_for(condition: Callable[[], bool], what: str, timeout_seconds: float = 60) -> None:
    """Return when a condition of the world holds."""
    give_up = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < give_up, f"never happened: {what}"
        time.sleep(0.01)
