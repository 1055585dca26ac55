"""One trial: a first life that is killed with SIGKILL, a second life that is watched, and the mail server's counts."""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.compare.mailserver import MailServer
from benchmarks.compare.systems import System
from benchmarks.compare.verdicts import Experiment, Facts

MARK = "COMPARE "
Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a trial runs.

    Args:
        python: the interpreter of the system's environment.
        name: unlike that of every other trial on the same server.
        server: the address of the system's own server, if it has one.
        watch_seconds: how long a resumed job may take.
        patience_seconds: how long a life may take to come to its kill, or beyond the watch to start and to end.
    """

    python: Path
    name: str
    server: str = ""
    watch_seconds: float = 60.0
    patience_seconds: float = 90.0


@dataclass(slots=True)
class _Life:
    """One process of the system under test, in a process group of its own."""

    process: subprocess.Popen[bytes]
    errors: Path
    told: "queue.Queue[Told | None]" = field(default_factory=queue.Queue)
    questions: list[Told] = field(default_factory=list)
    silent: bool = False
    """It closed its standard output: it has ended, or is about to."""
    watching_since: float = field(default_factory=time.monotonic)

    def read(self) -> None:
        """Take over what the process prints, to its end (in a thread of its own)."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text = line.decode("utf-8", "replace")
            if text.startswith(MARK):
                self.told.put(json.loads(text.removeprefix(MARK)))
        self.told.put(None)

    def wait_for(self, event: str, seconds: float) -> Told | None:
        """Return what was told with this event; None if the time is over or the process has ended before it."""
        until = time.monotonic() + seconds
        while True:
            try:
                told = self.told.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return None
            if told is None:
                self.silent = True
                return None
            if told["event"] == event:
                return told
            if told["event"] == "question":
                self.questions.append(told)
            if told["event"] == "watching":
                self.watching_since = time.monotonic()

    def kill(self) -> int:
        """Kill the whole process group with SIGKILL; return the exit code, which tells how the process ended."""
        if self.process.returncode is None:  # not waited for yet: the number is still this group's own
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def last_words(self) -> str:
        """Return the end of what it wrote on stderr."""
        lines = self.errors.read_text("utf-8", "replace").strip().splitlines()
        return " | ".join(line.strip() for line in lines[-2:])


@dataclass(frozen=True, slots=True)
class _Trial:
    system: System
    test: Experiment
    setting: Setting
    folder: Path
    mails: MailServer

    def run(self) -> Facts:
        if not self.test.hold:
            return self._watched("start", self.test.before, Facts())[0]
        with self._life("start", self.test.before, hold=self.test.hold) as life:
            held = life.wait_for("holding", self.setting.patience_seconds)
            code = life.kill()
        facts = Facts(exit_code=code, before=dict(self.mails.mails()))
        if held is None:
            return replace(facts, trouble=f"the first life did not come to the kill: {life.last_words()}")
        facts, questions = self._watched("resume", self.test.after, facts)
        if facts.said != "waiting" or not self.system.answered:
            return facts
        return replace(facts, answer=self._answered(facts, questions))

    def _watched(self, life_name: str, code: str, facts: Facts) -> tuple[Facts, list[Told]]:
        """Let a life go on until it says how the job stands; a life that does not is watched to its limit."""
        with self._life(life_name, code) as life:
            told = life.wait_for("said", self.setting.watch_seconds + self.setting.patience_seconds)
            seconds = round(time.monotonic() - life.watching_since, 1)
            if life.silent:
                life.process.wait(self.setting.patience_seconds)
            life.kill()
        if told is not None:
            facts = replace(facts, said=told["status"], detail=told["detail"])
        elif life.silent:
            words = f"the process ended with {life.process.returncode}: {life.last_words()}"
            facts = replace(facts, said="failed", detail=words)
        after, reads = dict(self.mails.mails()), dict(self.mails.reads())
        return replace(facts, after=after, reads=reads, watched_seconds=seconds), life.questions

    def _answered(self, facts: Facts, questions: list[Told]) -> Facts:
        """Answer as a person who has looked into the mailbox, and start the job once more.

        A call in doubt happened, since its mail is there; a mail that is not there yet is another one.
        """
        for question in questions:
            command = [str(self.setting.python.parent / "perdure"), "resolve", str(question["tool_call_id"])]
            answers = {"in_doubt": ["--happened", "--result", '{"accepted": "boss@example.org"}']}
            command += [*answers.get(question["kind"], ["--another"]), "--state-dir", str(self.folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return replace(facts, trouble=f"perdure resolve: {done.stderr.strip()[-200:]}")
        return self._watched("resume", self.test.after, replace(facts, said=None, detail=""))[0]

    def _life(self, life: str, code: str, hold: str = "") -> "_Started":
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "COMPARE_"))}
        environ |= {
            "COMPARE_CODE": code,
            "COMPARE_LIFE": life,
            "COMPARE_HOLD": hold,
            "COMPARE_VARIANT": self.system.variant,
            "COMPARE_TRIAL": self.setting.name,
            "COMPARE_FOLDER": str(self.folder),
            "COMPARE_SERVER": self.setting.server,
            "COMPARE_SMTP_PORT": str(self.mails.port),
            "COMPARE_WATCH_SECONDS": str(self.setting.watch_seconds),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return _Started([str(self.setting.python), str(self.system.script)], environ, self.folder, life)


class _Started:
    """Starts a life, and has it dead when the block ends."""

    def __init__(self, command: list[str], environ: dict[str, str], folder: Path, name: str) -> None:
        self._command, self._environ, self._folder, self._name = command, environ, folder, name

    def __enter__(self) -> _Life:
        errors = self._folder / f"{self._name}.stderr"
        with errors.open("ab") as out:
            process = subprocess.Popen(
                self._command,
                env=self._environ,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                start_new_session=True,
            )
        self._life = _Life(process, errors)
        self._reader = threading.Thread(target=self._life.read)
        self._reader.start()
        return self._life

    def __exit__(self, *_: object) -> None:
        self._life.kill()
        self._reader.join()
        for pipe in (self._life.process.stdin, self._life.process.stdout):
            if pipe is not None:
                pipe.close()


def run_trial(system: System, test: Experiment, setting: Setting) -> Facts:
    """Run one trial in a new folder, with a mail server of its own, and return what was seen.

    Trouble of our own makes it no trial, and is told; the other trials go on.
    """
    with tempfile.TemporaryDirectory(prefix="compare-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job").mkdir()
        try:
            with MailServer(folder / "mails.jsonl") as mails:
                return _Trial(system, test, setting, folder / "job", mails).run()
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            return Facts(trouble=f"{type(error).__name__}: {error}")


def names_of(system: System, count: int) -> Iterator[tuple[Experiment, str]]:
    """Return every trial of a system with its name; the run without a kill is made once."""
    for test in system.tests:
        for number in range(1, 1 + (count if test.hold else 1)):
            yield test, f"{system.key}-{test.name}-{number}".replace("_", "-")
