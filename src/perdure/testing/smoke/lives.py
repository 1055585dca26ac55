"""The processes of the smoke run: ``perdure`` as anybody would start it, some killed by a knob, one by SIGKILL."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from perdure.config.settings import HOME_VARIABLE, POLICIES_VARIABLE
from perdure.testing.errors import SmokeError
from perdure.testing.smoke.facts import Life

CRASHED = 137
_LONGEST_LIFE_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.02
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


class Lives:
    """Starts one process after the other, each in a group of its own.

    Args:
        folder: holds the ledger.
        policies: overlays on top of the job's rules.
    """

    def __init__(self, folder: Path, policies: Sequence[Path]) -> None:
        self._folder = folder
        self._environ = _environment(folder, policies)
        self.lived: list[Life] = []

    def live(
        self,
        arguments: Sequence[str],
        expected: int,
        why: str,
        *,
        knob: Mapping[str, str] | None = None,
        until: Callable[[], bool] | None = None,
    ) -> Life:
        """Live one life to its end.

        Args:
            arguments: what stands behind ``perdure``.
            expected: the exit code that it must have.
            why: what happens to it, for the person who looks.
            knob: a crash knob for this life.
            until: says when the process is to be killed with SIGKILL; it is not killed when left out.

        Raises:
            SmokeError: it did not end by itself in time.
        """
        process = self._start(arguments, knob or {})
        try:
            if until is not None:
                _kill(process, until)
            _, words = process.communicate(timeout=_LONGEST_LIFE_SECONDS)
        except subprocess.TimeoutExpired:
            raise SmokeError(f"perdure {shlex.join(arguments)} did not end in {_LONGEST_LIFE_SECONDS:.0f} s") from None
        finally:
            _end(process)
        command = f"perdure {shlex.join(arguments)}"
        life = Life(command, process.pid, process.returncode, expected, why, words)
        self.lived.append(life)
        return life

    def _start(self, arguments: Sequence[str], knob: Mapping[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            _command(arguments),
            env={**self._environ, **knob},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "perdure", *arguments]


def _environment(folder: Path, policies: Sequence[Path]) -> dict[str, str]:
    """Return the environment of every life: nothing of the caller's Perdure settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PERDURE_") and name.lower() not in _PROXIES
    }
    told = {HOME_VARIABLE: str(folder)}
    if policies:
        told[POLICIES_VARIABLE] = os.pathsep.join(str(path.absolute()) for path in policies)
    return kept | told


def _kill(process: subprocess.Popen[str], when: Callable[[], bool]) -> None:
    """Kill a process at the moment that is waited for, unless it ends before: its exit code then tells so."""
    give_up = time.monotonic() + _LONGEST_LIFE_SECONDS
    while process.poll() is None and not when() and time.monotonic() < give_up:
        time.sleep(_LOOK_EVERY_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[str]) -> None:
    """Leave nothing of a life behind, whatever happened here."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
