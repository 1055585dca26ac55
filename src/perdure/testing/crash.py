"""Kill a run at a place of your choice, in a process of its own, and go on in new ones until it has ended or waits."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure.runtime.crashpoints import EXIT_CODE as CRASHED
from perdure.testing.launcher import Start
from perdure.testing.order import Order, Place
from perdure.testing.starter import Answer, Starter, StarterEnded, crashed_at, points_passed

__all__ = ["Crashes", "DidNotCrash", "Launcher", "Life", "LifeBroke", "Order", "Passage", "Place"]

LIFE_SECONDS = 30.0
MOST_LIVES = 8
LAST_POINTS = 3  # whether a receipt shares a commit is a matter of timing, so lives differ by a few points
ENTRY = "perdure.testing.child:obey"
KNOB_PREFIX = "PERDURE_TEST_CRASH_"


class LifeBroke(AssertionError):
    """A life ended in a way in which none should: by an error outside the run, by a signal, or not at all."""


class DidNotCrash(AssertionError):
    """The place at which a life was to be killed was never reached."""


@dataclass(frozen=True, slots=True)
class Life:
    """How one life ended, as its parent saw it.

    Args:
        pid: of the process.
        exit_code: as a shell sees it; negative: ended by that signal.
        too_long: it was killed because it did not end.
        crashed_at: what the crash knob says it stood before or after; None where it did not fire.
        points_passed: numbered points that a life with ``point=N`` passed without a crash.
        document: what it told at its end, ``perdure.run/v1`` or ``perdure.error/v1``; empty if it was killed.
        calls: the run's calls at its end, with the fields of ``perdure.calls/v1``.
        clock: where its clock stood at its end, if it had one of its own.
    """

    pid: int
    exit_code: int
    too_long: bool
    crashed_at: str | None
    points_passed: int | None
    document: Mapping[str, Any]
    calls: tuple[Mapping[str, Any], ...]
    clock: str | None
    stdout: str
    stderr: str

    @property
    def status(self) -> str | None:
        """The status of the run, as the life told it."""
        return self.document.get("status")

    @property
    def ended_by_itself(self) -> bool:
        """Whether it told where the run stands."""
        return self.document.get("schema") == "perdure.run/v1"

    def __str__(self) -> str:
        if self.crashed_at is not None:
            return f"killed {self.crashed_at}"
        error: Mapping[str, Any] = self.document.get("error") or {}
        said = self.document.get("message") or self.stderr.strip()[-2000:]
        if not self.ended_by_itself:
            return f"ended with exit code {self.exit_code}: {said}"
        why = self.document.get("reason") or ": ".join(str(error[part]) for part in ("code", "detail") if part in error)
        return f"{self.status} ({why})" if why else f"{self.status}"


class Launcher:
    """Lives lives, one at a time; each is a real process. Use it with ``with``.

    Args:
        preload: modules that the lives need and that are imported only once.
    """

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)
        self._starter: Starter | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def live(
        self,
        order: Order,
        place: Place | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        seconds: float = LIFE_SECONDS,
    ) -> Life:
        """Live one life in a child process and return how it ended.

        Args:
            order: what it does.
            place: where it is killed, if at all.
            environ: added to this process's environment; its crash knobs are never passed on.
            seconds: how long it may last before it is killed.

        Raises:
            UsageError: the inputs are no JSON, or the place is none.
            LifeBroke: the launcher itself has ended.
        """
        knobs = {} if place is None else place.environ()
        starter, folder = self._started()
        self._count += 1
        report = Path(folder, f"life-{self._count}.json")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(KNOB_PREFIX)}
        start = Start(
            order=replace(order, report_path=str(report)).as_members(),
            environ={**kept, **(environ or {}), **knobs},
            folder=os.getcwd(),
            seconds=seconds,
        )
        try:
            answer = starter.ask(start)
        except StarterEnded as problem:
            raise LifeBroke(str(problem)) from None
        told: dict[str, Any] = json.loads(report.read_text("utf-8")) if report.exists() else {}
        return _life_of(answer, told)

    def stop(self) -> None:
        """End the launcher; a later life starts it again."""
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.stop()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def _started(self) -> tuple[Starter, str]:
        if self._starter is None or self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="perdure-lives-")
            # Settings of Perdure's are for the lives, each its own.
            outside = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
            self._starter = Starter(ENTRY, self._preload, outside)
        return self._starter, self._folder.name


def _life_of(answer: Answer, told: Mapping[str, Any]) -> Life:
    if answer["exit_code"] < 0 or answer["exit_code"] == CRASHED:
        told = {}  # it may have been killed after it told where the run stands: nobody may rely on that
    return Life(
        pid=answer["pid"],
        exit_code=answer["exit_code"],
        too_long=answer["too_long"],
        crashed_at=crashed_at(answer),
        points_passed=points_passed(answer),
        document=told.get("document", {}),
        calls=tuple(told.get("calls", ())),
        clock=told.get("clock"),
        stdout=answer["stdout"],
        stderr=answer["stderr"],
    )


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of a run that was killed: it has ended, or it waits for somebody.

    Args:
        order: what its lives were told; ``state_dir`` and ``run_id`` lead to its ledger.
        place: where it was killed, if at all.
        lives: all of them, the killed one included.
        environ: what was added to the environment of its lives.
    """

    order: Order
    place: Place | None
    lives: tuple[Life, ...] = ()
    environ: Mapping[str, str] | None = None

    @property
    def last(self) -> Life:
        """The life that told where the run stands."""
        return self.lives[-1]

    @property
    def crashed_at(self) -> str | None:
        """What the killed life stood before or after."""
        return next((life.crashed_at for life in self.lives if life.crashed_at is not None), None)

    @property
    def status(self) -> str | None:
        """``succeeded failed cancelled waiting``; None after a life that was killed."""
        return self.last.status

    @property
    def reason(self) -> str | None:
        """What a waiting run waits for: ``in_doubt approval challenge …``."""
        return self.last.document.get("reason")

    @property
    def waiting_for(self) -> list[Mapping[str, Any]]:
        """The open questions, each with ``kind``, ``id``, ``tool_call_id``, ``summary`` and ``commands``."""
        return list(self.last.document.get("waiting_for", ()))

    @property
    def result(self) -> Any:
        """What ``main`` returned."""
        from perdure.core.codec import from_tagged

        return from_tagged(self.last.document.get("result"))

    @property
    def exit_code(self) -> int:
        """The exit code of the last life, as the command line would give it."""
        return self.last.exit_code

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The run's calls, with the fields of ``perdure.calls/v1``."""
        return list(self.last.calls)

    @property
    def state_dir(self) -> Path:
        """Where the ledger is: ``perdure.open(state_dir=passage.state_dir)``."""
        return Path(self.order.state_dir)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.order.run_id

    def __str__(self) -> str:
        lines = [f"life {number}: {life}" for number, life in enumerate(self.lives, start=1)]
        return "\n".join([f"run {self.run_id} in {self.state_dir}, killed at {self.place or 'no place'}", *lines])


@dataclass(slots=True)
class Crashes:
    """Kills runs, and lives their further lives.

    Args:
        launcher: lives the lives.
        seconds: how long one life may last.
        most_lives: after so many a run must have ended or wait.
        on_life: told of every life.
    """

    launcher: Launcher
    seconds: float = LIFE_SECONDS
    most_lives: int = MOST_LIVES
    on_life: Callable[[Life], None] = field(default=lambda life: None)

    def kill(self, order: Order, place: Place | None, environ: Mapping[str, str] | None = None) -> Life:
        """Live the first life, which is killed at a place.

        Raises:
            DidNotCrash: it ended by itself.
            LifeBroke: it ended in a way in which none should.
        """
        life = self._live(order, place, environ)
        if place is not None and life.crashed_at is None:
            called = sorted({str(call["tool_name"]) for call in life.calls}) or ["none"]
            raise DidNotCrash(
                f"the run never came to the place {place}: it is {life}; tools that were called: {', '.join(called)}"
            )
        return life

    def go_on(self, so_far: Passage) -> Passage:
        """Live further lives until the run has ended or waits.

        Raises:
            LifeBroke: one ended in a way in which none should, or there were too many.
        """
        while not so_far.lives or not so_far.last.ended_by_itself:
            if len(so_far.lives) >= self.most_lives:
                raise LifeBroke(f"not ended after {len(so_far.lives)} lives:\n{so_far}")
            so_far = self.once_more(so_far)
        return so_far

    def once_more(self, so_far: Passage) -> Passage:
        """Live one life more, which nobody kills.

        Raises:
            LifeBroke: it ended in a way in which none should.
        """
        order = so_far.order
        if so_far.lives and order.clock is not None:
            order = replace(order, clock=max(order.clock, so_far.last.clock or ""))
        life = self._live(order, None, so_far.environ)
        return replace(so_far, lives=(*so_far.lives, life))

    def passage(self, order: Order, place: Place | None, environ: Mapping[str, str] | None = None) -> Passage:
        """Kill a run at a place, or at none, and go on until it has ended or waits; errors are those of both halves."""
        return self.go_on(Passage(order, place, (self.kill(order, place, environ),), environ))

    def every_point(
        self,
        order_of: Callable[[int], Order],
        environ: Mapping[str, str] | None = None,
        *,
        first: int = 1,
        last: int | None = None,
    ) -> Iterator[Passage]:
        """Kill a fresh run at each numbered point, until lives get through.

        Args:
            order_of: makes the order for a point's run, which must have a ledger of its own.
            environ: of all lives.
            first, last: the point to begin with, and the one to end with at the latest.

        Raises:
            DidNotCrash: not even the first point was reached.
            LifeBroke: a life ended in a way in which none should.
        """
        number, through = first, 0
        while through < LAST_POINTS and (last is None or number <= last):
            order, place = order_of(number), Place(point=number)
            life = self._live(order, place, environ)
            through = 0 if life.crashed_at is not None else through + 1
            if life.crashed_at is not None:
                yield self.go_on(Passage(order, place, (life,), environ))
            elif number == first:
                raise DidNotCrash(f"the run has no point {first}: it is {life}")
            number += 1

    def _live(self, order: Order, place: Place | None, environ: Mapping[str, str] | None) -> Life:
        life = self.launcher.live(order, place, environ, seconds=self.seconds)
        if life.too_long:
            raise LifeBroke(f"a life did not end within {self.seconds:g} s and was killed; it said:\n{life.stderr}")
        if life.crashed_at is None and not life.ended_by_itself:
            raise LifeBroke(f"a life of run {order.run_id} {life}")
        self.on_life(life)
        return life
