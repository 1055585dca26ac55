"""The operator's crash knobs: a hard exit at a named place, loud, and inert when unset (R070 to R075).

The exit is ``os._exit``: an exception would run handlers and test nothing (C22).
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from perdure.model.errors import UsageError
from perdure.ports.store import CrashPoint, no_crash_point

PREFIX = "PERDURE_TEST_CRASH_"
EXIT_CODE = 137
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]*\Z")
_CALL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.[1-9][0-9]*\Z")
_NAME = re.compile(r"\S(?:.*\S)?\Z")
_NUMBER = re.compile(r"[1-9][0-9]*\Z")
KNOBS: dict[str, tuple[re.Pattern[str], str]] = {
    "AFTER_TOOL": (_TOOL, "a tool name"),
    "AFTER_TOOL_CALL_ID": (_CALL, "a tool_call_id, <run_id>.<n>"),
    "AFTER_PHASE": (_NAME, "a phase name"),
    "AFTER_STEP": (_NAME, "a step id or name"),
    "AT_POINT": (_NUMBER, "a number from 1"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where physical work of this process stands."""

    step_id: str
    step_name: str
    phase: str
    tool_name: str | None = None
    tool_call_id: str | None = None


class Knobs:
    """The knobs of this process.

    Args:
        environ: where they are read from.

    Raises:
        UsageError: an unknown knob, or a value of the wrong form.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._set: dict[str, str] = {}
        problems: list[str] = []
        for variable, value in environ.items():
            if variable.startswith(PREFIX):
                name = variable.removeprefix(PREFIX)
                form = KNOBS.get(name)
                if form is None:
                    problems.append(f"{variable} is no crash knob; there are {', '.join(PREFIX + k for k in KNOBS)}")
                elif not form[0].match(value):
                    problems.append(f"{variable}={value!r} is not {form[1]}")
                else:
                    self._set[name] = value
        if problems:
            raise UsageError("\n".join(problems), next_command="unset it, or give it a value of that form")
        self._target = int(self._set.get("AT_POINT", "0"))
        self._count = 0
        self._lock = threading.Lock()
        if self._set:
            atexit.register(self._say_unfired)

    @property
    def crash_point(self) -> CrashPoint:
        """What the store and the ledger call at their numbered points."""
        return self._point if self._target else no_crash_point

    def tool_returned(self, place: Place) -> None:
        """A tool's result was received and its receipt is not stored yet."""
        if self._set:
            self._numbered(f"after tool {place.tool_name} ({place.tool_call_id})")
            if self._set.keys() & {"AFTER_TOOL", "AFTER_TOOL_CALL_ID"} and self._matches(place):
                self._crash(f"after tool {place.tool_name} call {place.tool_call_id}")

    def before_tool(self, place: Place) -> None:
        """A tool is about to be called; its intent is durable."""
        if self._set:
            self._numbered(f"before tool {place.tool_name} ({place.tool_call_id})")

    def step_ended(self, place: Place) -> None:
        """A step that did physical work in this process was recorded as done."""
        of_a_step = self._set.keys() & {"AFTER_PHASE", "AFTER_STEP"}
        of_a_call = self._set.keys() & {"AFTER_TOOL", "AFTER_TOOL_CALL_ID"}
        if of_a_step and not of_a_call and self._matches(place):
            self._crash(f"after step {place.step_name} phase {place.phase}")

    def _numbered(self, what: str) -> None:
        if self._target:
            self._point(what)

    def _point(self, what: str) -> None:
        with self._lock:
            self._count += 1
            reached = self._count == self._target
        if reached and self._set.keys() == {"AT_POINT"}:
            self._crash(f"at point {self._target}: {what}")

    def _matches(self, place: Place) -> bool:
        wanted = {
            "AFTER_TOOL": (place.tool_name,),
            "AFTER_TOOL_CALL_ID": (place.tool_call_id,),
            "AFTER_PHASE": (place.phase,),
            "AFTER_STEP": (place.step_id, place.step_name),
            "AT_POINT": (str(self._count),),
        }
        return all(value in wanted[name] for name, value in self._set.items())

    def _crash(self, where: str) -> None:
        os.write(2, f"PERDURE CRASH {where}\n".encode())
        os._exit(EXIT_CODE)

    def _say_unfired(self) -> None:
        names = ", ".join(f"{PREFIX}{name}={value}" for name, value in sorted(self._set.items()))
        reached = f"; {self._count} points were passed" if self._target else ""
        sys.stderr.write(f"perdure: crash knob did not fire: {names}{reached}\n")
