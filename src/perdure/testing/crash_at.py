"""What the fixture `crash_at` is: kill a test's own `main` at a place, and say what became of the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.testing.crash import LIFE_SECONDS, MOST_LIVES, Crashes, Launcher, Life, Passage
from perdure.testing.order import QUICK, Main, Order, Place, job_of

if TYPE_CHECKING:
    from perdure.testing.clock import FakeClock
    from perdure.testing.provider.client import Provider


class CrashAt:
    """Runs a ``main`` or a job in processes of their own, the first of which is killed.

    Args:
        launcher: lives the lives.
        new_folder: gives a folder for one run's ledger or, for ``every_point``, for those of all of them.
        provider: begins again before each passage of ``every_point``.
        clock: lives begin at its time, skip their sleeps, and move it on to where they ended.
        seconds: how long one life may last.
        most_lives: after so many lives a run must have ended or wait.
    """

    def __init__(
        self,
        launcher: Launcher,
        new_folder: Callable[[], Path],
        *,
        provider: Provider | None = None,
        clock: FakeClock | None = None,
        seconds: float = LIFE_SECONDS,
        most_lives: int = MOST_LIVES,
    ) -> None:
        self._crashes = Crashes(launcher, seconds, most_lives, on_life=self._after_life)
        self._new_folder = new_folder
        self._provider = provider
        self._clock = clock
        self.newest: Order | None = None
        """What the newest run was told, for those who want to look at its ledger."""

    def __call__(
        self,
        main: Main | str | Path,
        inputs: Mapping[str, Any] | None = None,
        *,
        tool: str | None = None,
        tool_call_id: str | None = None,
        phase: str | None = None,
        step: str | None = None,
        point: int | None = None,
        resume: bool = True,
        run_id: str = "job",
        environ: Mapping[str, str] | None = None,
        policies: Sequence[str | Path] = (),
        tuning: Mapping[str, float | bool] | None = None,
    ) -> Passage:
        """Kill a run at a place, and go on in new processes until it has ended or waits.

        Args:
            main: a function at the top of a file, or a job file, or ``file.py:main``.
            inputs: what ``run.inputs`` returns; JSON.
            tool: kill it after this tool returned, before its receipt is stored.
            tool_call_id: the same for one call, ``<run_id>.<n>``.
            phase: kill it after a step of this phase was recorded as done.
            step: the same for the step of this name.
            point: kill it at the N-th numbered point of its process. Several places together must all match.
            resume: go on; without it the passage ends with the killed life, and ``resume()`` goes on later.
            run_id: names the run.
            environ: added to the environment of the lives.
            policies: overlay files.
            tuning: fields of ``perdure.Tuning``; the pauses are short unless said otherwise.

        Raises:
            UsageError: no place, a place of wrong form, inputs that are no JSON, a ``main`` that cannot be found.
            DidNotCrash: the run never came to that place.
            LifeBroke: a life ended in a way in which none should.
        """
        place = Place(tool, tool_call_id, phase, step, point)
        place.environ()
        order = self._order(self._new_folder(), main, inputs, run_id, policies, tuning)
        self.newest = order
        killed = self._crashes.kill(order, place, environ)
        if not resume:
            return Passage(order, place, (killed,), environ)
        return self._crashes.go_on(Passage(order, place, (killed,), environ))

    def resume(self, passage: Passage, *, reopen: bool = False) -> Passage:
        """Go on with a run that was left killed, or waits and has been answered, or whose time has passed.

        Args:
            passage: what became of it so far.
            reopen: go on as ``perdure resume`` does, which tries the call again that ended a failed run.

        Raises:
            LifeBroke: a life ended in a way in which none should.
        """
        order = replace(passage.order, reopens=reopen, clock=self._now())
        self.newest = order
        return self._crashes.once_more(replace(passage, order=order))

    def every_point(
        self,
        main: Main | str | Path,
        inputs: Mapping[str, Any] | None = None,
        *,
        before: Callable[[], object] | None = None,
        first: int = 1,
        last: int | None = None,
        run_id: str = "job",
        environ: Mapping[str, str] | None = None,
        policies: Sequence[str | Path] = (),
        tuning: Mapping[str, float | bool] | None = None,
    ) -> Iterator[Passage]:
        """Kill a fresh run at point 1, 2, 3 … until lives get through, and give what became of each.

        The provider of the test begins again before each: its counts are those of one passage.

        Args:
            before: called before each run begins, to arm faults or to clear what the last one left.
            first, last: the point to begin with, and the one to end with at the latest.
            main, inputs, run_id, environ, policies, tuning: as for one crash.

        Raises:
            UsageError, DidNotCrash, LifeBroke: as for one crash.
        """
        folder = self._new_folder()

        def order_of(point: int) -> Order:
            if self._provider is not None:
                self._provider.begin_again()
            if before is not None:
                before()
            order = self._order(folder / f"point-{point:03}", main, inputs, run_id, policies, tuning)
            self.newest = order
            return order

        return self._crashes.every_point(order_of, environ, first=first, last=last)

    def _order(
        self,
        state_dir: Path,
        main: Main | str | Path,
        inputs: Mapping[str, Any] | None,
        run_id: str,
        policies: Sequence[str | Path],
        tuning: Mapping[str, float | bool] | None,
    ) -> Order:
        return Order(
            job=job_of(main),
            state_dir=str(state_dir),
            run_id=run_id,
            inputs=dict(inputs or {}),
            policies=tuple(str(Path(path).absolute()) for path in policies),
            tuning={**QUICK, **(tuning or {})},
            import_paths=tuple(path or os.getcwd() for path in sys.path),
            clock=self._now(),
        )

    def _now(self) -> str | None:
        return None if self._clock is None else self._clock.now()

    def _after_life(self, life: Life) -> None:
        if self._clock is not None and life.clock is not None:
            self._clock.advance_to(life.clock)
