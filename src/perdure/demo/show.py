"""The show: life after life of one run, until it ends by itself."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.config.settings import DATABASE_NAME, HOME_VARIABLE
from perdure.demo import person, world
from perdure.demo.counts import Counts, count
from perdure.demo.errors import DemoError
from perdure.demo.lives import Ended, Lives, environment
from perdure.demo.moments import Kill, Moment
from perdure.demo.report_job import job_file
from perdure.demo.screen import Screen
from perdure.demo.story import Story
from perdure.engine import Engine
from perdure.runtime.report import run_document

RUN_ID = "demo"
RECIPIENT = "boss@example.org"
_IN_DOUBT = 7
_MOST_LIVES = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened.

    Args:
        kills: how many lives were killed; ``planned`` is how many were to be.
        run: the run's document, ``perdure.run/v1``.
        counts: what the servers received.
    """

    folder: Path
    kills: int
    planned: int
    lives: int
    run: dict[str, Any]
    counts: Counts
    mail_call: str | None
    seconds: float


class Show:
    """One performance.

    Args:
        folder: empty; holds ledger, workspace and the world.
        kills: one for each life that is to be killed.
        probe: whether the job may search the mailbox.
        policies: overlays on top of the job's own.
    """

    def __init__(self, folder: Path, kills: Sequence[Kill], *, probe: bool, policies: Sequence[Path]) -> None:
        self._folder = folder
        self._kills = list(kills)
        self._probe = probe
        self._policies = policies
        self._screen = Screen()
        self._killed = 0

    def run(self) -> Seen:
        """Play it to its end; every process that was started is gone afterwards.

        Raises:
            PerdureError: something did not come to its end.
        """
        planned = len(self._kills)
        self._screen.line(
            f"$ export {HOME_VARIABLE}={shlex.quote(str(self._folder))}   # everything is kept there", "go on"
        )
        self._screen.line("starting a web site, an S3 server, a mail server and a webhook receiver …")
        with world.start(self._folder / "world") as outside, self._engine() as engine:
            self._screen.line("the servers answer; they know nothing of the job, and each keeps its own log")
            story = Story(engine, RUN_ID, self._screen)
            environ = environment(self._folder, outside, probe=self._probe, policies=self._policies)
            lives = Lives(self._folder, outside, environ, story)
            self._live_on(outside, engine, story, lives, environ)
            return Seen(
                folder=self._folder,
                kills=self._killed,
                planned=planned,
                lives=len(engine.details(RUN_ID)["lives"]),
                run=run_document(engine.outcome(RUN_ID)),
                counts=count(outside),
                mail_call=story.last_call("send_mail"),
                seconds=self._screen.seconds,
            )

    def _engine(self) -> Engine:
        ledger = f"sqlite:///{self._folder / DATABASE_NAME}"
        flags = f"--state-dir {shlex.quote(str(self._folder))}"
        return Engine(ledger, state_dir=self._folder, environ={}, command_flags=flags)

    def _live_on(
        self, outside: world.World, engine: Engine, story: Story, lives: Lives, environ: dict[str, str]
    ) -> None:
        inputs = {"urls": [outside.site_url], "to": RECIPIENT}
        given = [word for name, value in inputs.items() for word in ("-i", f"{name}={json.dumps(value)}")]
        arguments: Sequence[str] = ["run", str(job_file()), *given, "--run-id", RUN_ID]
        for _ in range(_MOST_LIVES):
            kill = self._kills.pop(0) if self._kills else None
            ended = self._one_life(lives, story, arguments, kill)
            if ended.killed:
                arguments = ["resume", RUN_ID]
            elif ended.exit_code == _IN_DOUBT and not self._probe:
                self._screen.line(f"process {ended.pid} ended with exit code {_IN_DOUBT}: the run waits", "ask")
                arguments = person.verdict(
                    engine, RUN_ID, outside.imap, self._screen, lambda words: self._ask(words, environ)
                )
            else:
                self._tell_end(ended, kill)
                return
        raise DemoError(f"the run did not end in {_MOST_LIVES} lives")

    def _one_life(self, lives: Lives, story: Story, arguments: Sequence[str], kill: Kill | None) -> Ended:
        self._screen.lines([""])
        receipts = story.receipts()

        def begun(pid: int) -> None:
            self._screen.line(f"$ {_typed(arguments)}   # process {pid}", "go on")
            if receipts:
                self._screen.line(f"{receipts} calls have their receipts: none of them is made again")

        ended = lives.live(arguments, kill, begun)
        if ended.killed:
            self._killed += 1
            self._tell_kill(story, ended, kill.moment if kill is not None else None)
        return ended

    def _tell_kill(self, story: Story, ended: Ended, moment: Moment | None) -> None:
        lost = story.lost()
        if moment is None:
            self._screen.line(f"crash point reached, process {ended.pid}: {ended.words.strip()}", "kill")
        elif moment.server is None or moment.tool in lost.values():
            self._screen.line(f"SIGKILL process {ended.pid}: {moment.words}", "kill")
        else:
            raise DemoError(f"{moment.name}: the process was killed too late, its receipt was written already")
        if lost:
            names = ", ".join(story.name(call_id) for call_id in lost)
            self._screen.line(f"started, and nothing known of the outcome: {names}", "kill")

    def _ask(self, words: str, environ: dict[str, str]) -> str:
        self._screen.line(f"$ {_typed([words])}", "go on")
        command = [sys.executable, "-P", "-m", "perdure", words]
        asked = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        if asked.returncode:
            raise DemoError(f"`perdure {words}` ended with {asked.returncode}: {asked.stderr.strip()}")
        return asked.stdout

    def _tell_end(self, ended: Ended, kill: Kill | None) -> None:
        if ended.exit_code:
            self._screen.line(f"process {ended.pid} ended with exit code {ended.exit_code}; it said:", "kill")
            self._screen.block(ended.words[-4000:])
        else:
            self._screen.line("the run has ended by itself", "done")
        for missed in [kill, *self._kills] if kill is not None else self._kills:
            what = f"crash point {missed.point}" if missed.moment is None else missed.moment.name
            self._screen.line(f"it ended before it could be killed at: {what}", "kill")


def _typed(arguments: Sequence[str]) -> str:
    """Return a command as it would be typed, the job named as in its own folder."""
    words = [Path(word).name if word.endswith(".job.yaml") else word for word in arguments]
    return shlex.join(["perdure", *words])
