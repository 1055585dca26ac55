"""The parent's side of ``testing.launcher``: start it, give it orders, and read what became of each process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perdure.runtime.crashpoints import EXIT_CODE as CRASHED
from perdure.testing.launcher import Start

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_FIRED = re.compile(r"^PERDURE CRASH (?:at point \d+: )?(.*)$", re.MULTILINE)
_UNFIRED = re.compile(r"crash knob did not fire: .*; (\d+) points were passed")
Answer = Mapping[str, Any]


class StarterEnded(Exception):
    """The process that starts the others has ended; its own message is on stderr."""


class Starter:
    """One process that has imported what the others need, and forks each of them.

    Args:
        entry: what each of them calls, ``module:function``.
        preload: modules that are imported only once.
        environ: the environment it starts with; each process is given its own.
    """

    def __init__(self, entry: str, preload: Sequence[str], environ: Mapping[str, str]) -> None:
        paths = [_PACKAGE_ROOT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "perdure.testing.launcher", entry, *preload],
            env={**environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The number of the process that forks the others."""
        return self._process.pid

    def ask(self, start: Start) -> Answer:
        """Have one process started, and return how it ended.

        Raises:
            StarterEnded: there is nobody who could.
        """
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        line = ""
        if pipe_in is not None and pipe_out is not None:
            with suppress(BrokenPipeError):
                pipe_in.write(json.dumps(asdict(start)) + "\n")
                pipe_in.flush()
                line = pipe_out.readline()
        if not line:
            raise StarterEnded(str(StarterEnded.__doc__))
        answer: Answer = json.loads(line)
        return answer

    def stop(self) -> None:
        """End it: its stdin is its leash, and it kills what it has started."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


def crashed_at(answer: Answer) -> str | None:
    """Return what the crash knob says that the process stood before or after; ``None`` where it did not fire."""
    fired = _FIRED.search(answer["stderr"])
    return fired[1] if fired is not None and answer["exit_code"] == CRASHED else None


def points_passed(answer: Answer) -> int | None:
    """Return how many numbered points a process passed whose knob did not fire."""
    unfired = _UNFIRED.search(answer["stderr"])
    return int(unfired[1]) if unfired is not None else None
