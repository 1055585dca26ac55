"""The five cases of the durability matrix on real servers: a web site, an S3 store, a mail server, a webhook receiver.

Each life is the command `perdure` in a process of its own. It is killed with SIGKILL while a server that has done what it
was asked for holds its answer back, or by a crash knob; then `perdure resume` goes on, and the servers' logs are counted.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perdure.demo import lives
from perdure.demo.world import World, start

KILLED, CRASHED = -9, 137
KNOB = "PERDURE_TEST_CRASH_AFTER_"
PAPER = '''
"""Reads a page, lets a child research, makes a PDF, stores it and mails that it is there."""
from perdure.toolbox.crawl import fetch
from perdure.toolbox.files import write_file
from perdure.toolbox.mail import send_mail
from perdure.toolbox.notify import notify
from perdure.toolbox.pdf import render_pdf
from perdure.toolbox.upload import upload


async def child(run):
    """Work of its own with effects of its own; whoever restarts it must not repeat them."""
    notes = await run.call(write_file, "notes.txt", "what the child found")
    stored = await upload(notes["path"], f"{run.run_id}/notes.txt")
    await notify("", "child.done", {"run": run.run_id, "url": stored["url"]})
    return stored["url"]


async def main(run):
    async with run.step("read", phase="crawl"):
        page = await fetch(run.inputs["url"])
    async with run.step("research", phase="research"):
        notes = await run.memo("child", child, run, key="child")
    async with run.step("render", phase="render"):
        section = {"heading": "Page", "paragraphs": [page["final_url"]], "source": notes}
        pdf = await run.call(render_pdf, "Paper", [section], output="paper.pdf")
    async with run.step("store", phase="upload"):
        stored = await upload(pdf["path"], f"{run.run_id}/paper.pdf")
    async with run.step("tell", phase="send"):
        mail = await send_mail("boss@example.org", run.run_id, stored["url"])
    return {"sha256": pdf["sha256"], "message_id": mail["message_id"]}
'''
# The page was read once, the child's notes and the paper were stored, one mail and one notice arrived.
EVERYTHING = {"uploads": 2, "mails": 1, "notices": 1}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with start(tmp_path_factory.mktemp("world")) as running:
        yield running


@dataclass
class Case:
    """One run in a folder of its own, and what the servers had counted before it."""

    world: World
    folder: Path
    run_id: str = field(default_factory=lambda: f"paper-{secrets.token_hex(4)}")  # the servers outlive the case
    before: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "paper.py").write_text(PAPER)
        self.before = self.world.counts()

    @property
    def environ(self) -> dict[str, str]:
        return lives.environment(self.folder / "state", self.world, probe=True, policies=[])

    def start(self, *words: str, **knobs: str) -> subprocess.Popen[str]:
        """Start `perdure` with these words and crash knobs."""
        environ = self.environ | {KNOB + name: value for name, value in knobs.items()}
        return subprocess.Popen(
            [sys.executable, "-m", "perdure", *words], cwd=self.folder, env=environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, **knobs: str) -> subprocess.Popen[str]:
        """Start the first life."""
        return self.start("run", "paper.py:main", "--run-id", self.run_id, "-i", f"url={self.world.site_url}", **knobs)

    def crash(self, **knobs: str) -> None:
        """Live a first life that a crash knob ends."""
        life = self.run(**knobs)
        _, words = life.communicate(timeout=60)
        assert life.returncode == CRASHED and "PERDURE CRASH" in words, words

    def kill_while_it_waits_for(self, server: str) -> None:
        """Kill the first life while a server that has done its work holds the answer back."""
        self.world.pause(server)
        life = self.run()
        self.world.wait_held(server, timeout_seconds=60)
        life.kill()
        life.communicate(timeout=60)
        assert life.returncode == KILLED
        self.world.release(server)

    def resume(self) -> dict[str, Any]:
        """Go on in a new process to the end, which needs nobody."""
        life = self.start("resume", self.run_id, "-o", "json")
        out, words = life.communicate(timeout=60)
        assert life.returncode == 0, words
        document: dict[str, Any] = json.loads(out)
        return document

    def arrived(self) -> dict[str, int]:
        """What the servers counted since the case began."""
        now = self.world.counts()
        return {name: now[name] - self.before[name] for name in EVERYTHING}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What the ledger says, read as anyone may read it."""
        with closing(sqlite3.connect(f"file:{self.folder}/state/runtime_state.db?mode=ro", uri=True)) as database:
            return database.execute(sql).fetchall()

    def states(self, tool: str) -> list[str]:
        """The states of a tool's calls, oldest first."""
        return [row[0] for row in self.rows(f"SELECT status FROM v_calls WHERE tool_name = '{tool}' ORDER BY call_no")]

    def goes_on_and_does_everything_once(self) -> dict[str, Any]:
        """Resume, count at the servers, look into the ledger; return what the run says of itself."""
        document = self.resume()
        assert document["status"] == "succeeded"
        assert self.arrived() == EVERYTHING
        assert self.rows("SELECT DISTINCT status FROM v_effects") == [("succeeded",)]
        assert self.rows("SELECT count(*) FROM run_attempts") == [(2,)]
        again = self.resume()
        assert (again["result"], self.arrived()) == (document["result"], EVERYTHING)
        return document


@pytest.fixture
def case(world: World, tmp_path: Path) -> Case:
    return Case(world, tmp_path)


@pytest.mark.parametrize("point", ["its upload has no receipt", "its notice has no receipt"])
def test_kill_in_a_child(case: Case, point: str) -> None:
    """The child is started again, and its own finished calls are not made again."""
    if "notice" in point:
        case.kill_while_it_waits_for("webhook")
        assert (case.states("upload"), case.states("notify")) == (["succeeded"], ["running"])
    else:
        case.crash(TOOL="upload")
        assert case.states("upload") == ["running"]
    assert case.rows("SELECT status FROM tool_calls WHERE tool_namespace = 'memo'") == [("running",)]
    case.goes_on_and_does_everything_once()
    assert case.rows("SELECT status FROM tool_calls WHERE tool_namespace = 'memo'") == [("succeeded",)]


@pytest.mark.parametrize("point", ["the PDF has no receipt", "the PDF has its receipt"])
def test_kill_after_pdf_before_upload(case: Case, point: str) -> None:
    case.crash(**({"PHASE": "render"} if "its receipt" in point else {"TOOL": "render_pdf"}))
    assert case.states("render_pdf") == ["succeeded" if "its receipt" in point else "running"]
    assert case.arrived() == {"uploads": 1, "mails": 0, "notices": 1}
    document = case.goes_on_and_does_everything_once()
    stored = [line["sha256"] for line in case.world.events("s3") if line.get("event") == "put_object"]
    assert document["result"]["sha256"] == stored[-1]


@pytest.mark.parametrize("point", ["the upload has no receipt", "the upload has its receipt"])
def test_kill_after_upload_before_email(case: Case, point: str) -> None:
    if "its receipt" in point:
        case.crash(PHASE="upload")
    else:
        case.crash(TOOL="upload", PHASE="upload")
    assert case.states("upload") == ["succeeded", "succeeded" if "its receipt" in point else "running"]
    assert case.arrived() == {"uploads": 2, "mails": 0, "notices": 1}
    case.goes_on_and_does_everything_once()


@pytest.mark.parametrize("by", ["SIGKILL", "knob"])
def test_kill_after_email_before_mark(case: Case, by: str) -> None:
    """The mail is out and the ledger does not know: the mailbox is asked, and nothing is sent again."""
    if by == "SIGKILL":
        case.kill_while_it_waits_for("mail")
    else:
        case.crash(TOOL="send_mail")
    assert case.states("send_mail") == ["running"]
    assert case.arrived() == EVERYTHING
    document = case.goes_on_and_does_everything_once()
    assert document["settled"] == 1
    assert ("probe", "happened") in case.rows("SELECT kind, says FROM evidence")


def test_kill_in_a_read_only_call(case: Case) -> None:
    """A read simply runs again."""
    case.crash(TOOL="fetch")
    assert case.states("fetch") == ["running"]
    assert case.arrived() == dict.fromkeys(EVERYTHING, 0)
    case.goes_on_and_does_everything_once()
    assert case.rows("SELECT status, attempt FROM v_calls WHERE tool_name = 'fetch'") == [("succeeded", 2)]
