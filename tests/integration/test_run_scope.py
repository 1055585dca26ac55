"""``perdure.run_scope``: a script under a run, as its user runs it: the script again, until it is done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SYNC = """
import sys
import perdure
from perdure import Tuning, tool

@tool(side_effect_class="external", scope=["to"])
def send(to: str) -> str:
    with open("outbox.txt", "a") as outbox:
        outbox.write(to + "\\n")
    return "sent"

@tool(side_effect_class="external", approval="always")
def sign(what: str) -> str:
    with open("outbox.txt", "a") as outbox:
        outbox.write("signed " + what + "\\n")
    return "signed"

with perdure.run_scope("week", {"to": "ann"}, tuning=Tuning(quiet_seconds=0.05)) as run:
    send(run.inputs["to"])
    if "fail" in sys.argv:
        raise ValueError("oh")
    sign("it")
    send("bob")
print("after")
"""

ASYNC = """
import asyncio, sys
import perdure
from perdure import Tuning, tool

@tool(side_effect_class="external", scope=["to"])
async def send(to: str) -> str:
    await asyncio.sleep(0)
    with open("outbox.txt", "a") as outbox:
        outbox.write(to + "\\n")
    return "sent"

@tool(side_effect_class="external", approval="always")
async def sign(what: str) -> str:
    with open("outbox.txt", "a") as outbox:
        outbox.write("signed " + what + "\\n")
    return "signed"

async def script():
    async with perdure.run_scope("week", {"to": "ann"}, tuning=Tuning(quiet_seconds=0.05)) as run:
        await asyncio.gather(send(run.inputs["to"]), send("carl"))
        if "fail" in sys.argv:
            raise ValueError("oh")
        await sign("it")
        await send("bob")
    print("after")

asyncio.run(script())
"""


class Script:
    """A script in a folder of its own."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        (folder / "script.py").write_text(text, "utf-8")

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.shell(sys.executable, "script.py", *arguments, **environ)

    def perdure(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.shell(sys.executable, "-m", "perdure", *arguments)

    def shell(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def outbox(self) -> list[str]:
        return sorted((self.folder / "outbox.txt").read_text("utf-8").split("\n"))[1:]

    def approve(self) -> None:
        found = self.perdure("inbox").stdout
        approval = next(word for word in found.split() if word.startswith("a") and len(word) == 11)
        assert self.perdure("approve", approval).returncode == 0


@pytest.mark.parametrize("text", [SYNC, ASYNC], ids=["sync", "async"])
def test_a_script_is_run_again_until_it_is_done(tmp_path: Path, text: str) -> None:
    script = Script(tmp_path, text)
    both = ["ann", "carl"] if text is ASYNC else ["ann"]
    first = script.run()
    assert (first.returncode, first.stdout) == (6, ""), first
    assert "run week: waiting (approval)" in first.stderr
    assert "Traceback" not in first.stderr
    assert script.outbox() == both
    script.approve()
    second = script.run()
    assert (second.returncode, second.stdout) == (0, "after\n"), second
    assert script.outbox() == sorted([*both, "bob", "signed it"])
    third = script.run()
    assert (third.returncode, third.stdout) == (0, ""), third
    assert "run week: succeeded" in third.stderr
    assert script.outbox() == sorted([*both, "bob", "signed it"])


@pytest.mark.parametrize("text", [SYNC, ASYNC], ids=["sync", "async"])
def test_an_error_of_the_script_is_its_own_and_the_next_time_goes_on(tmp_path: Path, text: str) -> None:
    script = Script(tmp_path, text)
    failed = script.run("fail")
    assert failed.returncode == 1
    assert "ValueError: oh" in failed.stderr
    assert "run week: failed" in failed.stderr
    before = script.outbox()
    assert script.run().returncode == 6
    assert script.outbox() == before


@pytest.mark.parametrize("text", [SYNC, ASYNC], ids=["sync", "async"])
def test_a_lost_outcome_keeps_the_script_out_until_it_is_settled(tmp_path: Path, text: str) -> None:
    script = Script(tmp_path, text)
    killed = script.run(PERDURE_TEST_CRASH_AFTER_TOOL="send")
    assert killed.returncode == 137
    waiting = script.run()
    assert (waiting.returncode, waiting.stdout) == (7, ""), waiting
    assert "did it happen?" in waiting.stderr
    done = script.outbox()
    for line in waiting.stderr.splitlines():
        if line.strip().endswith("--happened"):
            call = line.split()[2]
            answer = ["--happened", "--result", '"sent"'] if done else ["--did-not-happen"]
            done = done[1:]
            assert script.perdure("resolve", call, *answer).returncode == 0
    assert script.run().returncode == 6
    assert script.outbox().count("ann") == 1


@pytest.mark.parametrize("text", [SYNC, ASYNC], ids=["sync", "async"])
def test_another_specification_is_refused_plainly(tmp_path: Path, text: str) -> None:
    script = Script(tmp_path, text)
    script.run()
    Script(tmp_path, text.replace('"to": "ann"', '"to": "zoe"'))
    refused = script.run()
    assert refused.returncode == 2
    assert "error[PERDURE-130]: run week exists with another specification" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "next: give it what is stored, or another id for a new run" in refused.stderr


def test_who_resumes_it_from_outside_is_told_to_start_the_script(tmp_path: Path) -> None:
    script = Script(tmp_path, SYNC)
    assert script.run().returncode == 6
    script.approve()
    refused = script.perdure("resume", "week")
    assert refused.returncode == 2
    assert "next: start the script again that has run_scope('week')" in refused.stderr
