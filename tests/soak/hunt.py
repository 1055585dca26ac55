"""Workers that take walks through schedules, and what they find."""

from __future__ import annotations

import json
import math
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.soak.figures import Figures
from tests.soak.player import Played, Player
from tests.soak.schedule import Schedule
from tests.soak.sections import Walk
from tests.soak.stand import Stand

PROGRESS_SECONDS = 30.0


class OutOfTime(Exception):
    """Nothing more is begun."""


class Hunt:
    """Lets workers take walks, one after another, and adds up what they find.

    Args:
        folder: where they play.
        kept: where the ledgers of failed schedules are copied to.
        environ: what every life finds in its environment beside its own.
    """

    def __init__(self, folder: Path, kept: Path | None = None, *, environ: dict[str, str] | None = None) -> None:
        self._folder, self._kept, self._environ = folder, kept, environ
        self._give_up_at = math.inf
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._told_at = self._began
        self.figures = Figures()
        self.problem: BaseException | None = None
        self.interrupted = False

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    def take(self, section: str, walks: Iterator[Walk], jobs: int, seconds: float = math.inf) -> None:
        """Let `jobs` workers take the walks of one section, and begin nothing more after so many seconds."""
        self._give_up_at = time.monotonic() + seconds
        workers = [threading.Thread(target=self._work, args=[section, walks, n]) for n in range(jobs)]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            self.interrupted = True
            self._give_up_at = 0.0  # what is being played still needs its folder
            for worker in workers:
                worker.join()
        if self.problem is not None:
            raise self.problem

    def _work(self, section: str, walks: Iterator[Walk], number: int) -> None:
        try:
            with Stand(self._folder / f"{section}{number}") as stand:
                while (walk := self._next(walks)) is not None:
                    walk(lambda schedule: self.play(section, stand, schedule))
        except OutOfTime:
            return
        except BaseException as problem:
            self.problem = problem

    def _next(self, walks: Iterator[Walk]) -> Walk | None:
        with self._lock:
            return None if self.problem is not None else next(walks, None)

    def play(self, section: str, stand: Stand, schedule: Schedule) -> Played:
        """Play one schedule and add it up.

        Raises:
            OutOfTime: there is none left.
        """
        if time.monotonic() > self._give_up_at or self.problem is not None:
            raise OutOfTime
        player = Player(stand, schedule, self._environ)
        played = player.play()
        if self.interrupted:
            raise OutOfTime  # a terminal interrupts the launchers and providers too
        with self._lock:
            self.figures.add(section, played)
            if played.problems:
                self._tell_failure(player, played)
            if time.monotonic() - self._told_at > PROGRESS_SECONDS:
                self._told_at = time.monotonic()
                print(f"{section}: {self.figures.line(self.seconds)}", file=sys.stderr, flush=True)
        return played

    def _tell_failure(self, player: Player, played: Played) -> None:
        print(*story_of(player, played), sep="\n", file=sys.stderr)
        print(f"again: python3 tasks.py soak --replay {played.label}", file=sys.stderr, flush=True)
        if self._kept is not None and player.state_dir.exists():
            kept = self._kept / played.label.replace(":", "-")
            shutil.copytree(player.state_dir, kept, dirs_exist_ok=True)
            lines = "".join(json.dumps(line) + "\n" for line in player.world.lines(player.tag))
            (kept / "provider.jsonl").write_text(lines, "utf-8")


def story_of(player: Player, played: Played) -> list[str]:
    """What happened in a schedule, line by line."""
    program = player.program
    what = f"{played.label}: {program.job} {program.inputs} asks for {program.effects}; the person: {player.schedule.person}"
    return [what, *(f"  {line}" for line in played.story), *(f"  {problem}" for problem in played.problems)]
