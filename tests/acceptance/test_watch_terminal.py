"""Watching on a real terminal and off it, while another process works on the run, dies, and is followed by another."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Desk, ended, environment, wait_for

JOB = """
import os, pathlib, time
from perdure import tool


@tool(side_effect_class="read_only")
def fetch(page: str) -> str:
    pathlib.Path(f"{page}.asked").touch()
    give_up = time.monotonic() + 60
    while not pathlib.Path(f"{page}.ready").exists() and time.monotonic() < give_up:
        time.sleep(0.01)
    print(f"fetched {page}")
    return page


@tool(side_effect_class="external", approval="always")
def wire(cents: int) -> str:
    return "wired"


def main(run):
    with run.step("crawl", phase="read"):
        fetch("a")
        fetch("b")


def pays(run):
    return wire(5)
"""


class TerminalSession:
    """A command on a pseudo-terminal, and all that it has written there."""

    def __init__(self, desk: Desk, words: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perdure", *words],
            cwd=desk.folder,
            env=environment({"TERM": "xterm", "LINES": "30", "COLUMNS": "90", "NO_COLOR": "1", **env}),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._read: list[bytes] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        while True:
            try:
                found = os.read(self._ours, 65536)
            except OSError:  # the other side was closed
                return
            if not found:
                return
            self._read.append(found)

    @property
    def text(self) -> str:
        """What was written so far."""
        return b"".join(self._read).decode("utf-8", "replace")

    def shows(self, text: str) -> None:
        """Wait until a text was written."""
        wait_for(lambda: text in self.text, f"{text!r} on the terminal:\n{self.text}")

    def ended(self) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(20)
        self._reader.join(5)
        os.close(self._ours)
        return code


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A folder with the job in it; its pages are let go in the end."""
    found = Desk(tmp_path)
    found.write("job.py", JOB)
    yield found
    for page in "ab":
        found.write(f"{page}.ready", "")


def started(desk: Desk) -> subprocess.Popen[str]:
    """Start the run and wait until it is on its way."""
    process = desk.start("run", "job.py:main", "--run-id", "w", "-q")
    wait_for((desk.folder / "a.asked").exists, "the first call")
    return process


def test_a_watch_survives_the_death_of_the_run_s_process_and_leaves_with_the_run_s_code(desk: Desk) -> None:
    owner = started(desk)
    watch = TerminalSession(desk, ("runs", "watch", "w", "--until", "ended"), {})
    watch.shows("w.1 fetch: running")
    watch.shows("read / crawl")
    watch.shows(f"process {owner.pid}")
    owner.send_signal(signal.SIGKILL)
    ended(owner)
    watch.shows(f"its process {owner.pid} is gone")
    watch.shows("perdure resume w")
    assert watch.process.poll() is None
    desk.write("a.ready", "")
    desk.write("b.ready", "")
    resumed = desk.start("resume", "w", "-q")
    assert watch.ended() == 0
    assert ended(resumed).code == 0
    last = watch.text.rpartition("\x1b[J")[2]
    assert "w  job  succeeded · life 2" in last
    assert "\x1b[J" in watch.text, "the block was drawn again in its place"


def test_off_a_terminal_each_change_is_one_line_or_one_document_with_a_cursor(desk: Desk) -> None:
    owner = started(desk)
    lines = desk.start("runs", "watch", "w")
    stream = desk.start("runs", "watch", "w", "-o", "jsonl", "--since", "start")
    assert stream.stdout is not None
    first = json.loads(stream.stdout.readline())
    assert (first["schema"], first["kind"], first["state"]) == ("perdure.event/v1", "life", "began")
    assert lines.stdout is not None
    assert lines.stdout.readline().startswith("w  job  running")
    desk.write("a.ready", "")
    assert "w.1 fetch: succeeded" in lines.stdout.readline() + lines.stdout.readline()
    desk.write("b.ready", "")
    assert ended(owner).code == 0
    said, told = ended(lines), ended(stream)
    assert (said.code, told.code) == (0, 0)
    assert "\x1b" not in said.out
    events = [json.loads(line) for line in told.out.splitlines()]
    rest = desk.type("runs", "watch", "w", "-o", "jsonl", "--since", events[0]["cursor"])
    assert rest.code == 0
    later = [json.loads(line) for line in rest.out.splitlines()]
    assert later[-1]["status"] == events[-1]["status"] == "succeeded"
    assert {item["tool_call_id"] for item in [first, *events] if item["kind"] == "call"} == {"w.1", "w.2"}
    assert desk.type("runs", "watch", "-o", "json").document["status"] == "succeeded"


@pytest.mark.parametrize(
    ("env", "drawn", "dot"),
    [({}, True, " · "), ({"TERM": "dumb"}, False, " · "), ({"PYTHONIOENCODING": "ascii"}, True, " | ")],
    ids=["drawn", "dumb", "ascii"],
)
def test_a_run_shows_how_it_gets_on_where_a_person_sits(desk: Desk, env: dict[str, str], drawn: bool, dot: str) -> None:
    session = TerminalSession(desk, ("run", "job.py:main", "--run-id", "w"), env)
    session.shows("w.1 fetch: running")
    desk.write("a.ready", "")
    desk.write("b.ready", "")
    assert session.ended() == 0
    text = session.text
    assert ("\x1b[" in text) is drawn
    assert (f"running{dot}life 1" in text) is drawn
    assert text.isascii() or dot == " · "
    assert "fetched a\r\n" in text
    assert "fetched b\r\n" in text
    assert text.rstrip().endswith("run w: succeeded")


def test_a_watch_leaves_when_a_person_is_asked_and_says_how_to_answer(desk: Desk) -> None:
    quiet = desk.type("run", "job.py:pays", "--run-id", "p", "--quiet")
    assert quiet.code == 6
    assert quiet.err.lstrip().startswith("run p: waiting (approval)")
    watched = desk.type("runs", "watch", "p")
    assert watched.code == 6
    assert "perdure approve a" in watched.out
    told = desk.type("resume", "p")
    assert "life        2 began in process" in told.err
    document = desk.type("resume", "p", "-o", "json")
    assert "began" not in document.err
