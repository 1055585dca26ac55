"""What one life is told to do, and where it is killed."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perdure.model.errors import UsageError

QUICK = {"quiet_seconds": 0.05, "first_retry_seconds": 0.01, "wait_poll_seconds": 0.02}
Main = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Order:
    """What one life does; it travels to the child as JSON.

    Args:
        job: a job file, ``file.py:main`` or ``module:main``.
        state_dir: where the ledger and the workspaces are.
        inputs: what ``run.inputs`` returns.
        policies: overlay files.
        tuning: fields of ``perdure.Tuning``.
        import_paths: what the child looks for modules in before everything else.
        reopens: go on as ``perdure resume`` does, which tries the call again that ended a failed run.
        kills_owner: kill a process that still owns the run first.
        clock: the time at which the child's clock begins, ISO-8601; None for the machine's own clock.
        report_path: where the child writes what it has to tell; chosen by the launcher.
    """

    job: str
    state_dir: str
    run_id: str = "job"
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    policies: tuple[str, ...] = ()
    tuning: Mapping[str, float | bool] = field(default_factory=lambda: dict[str, float | bool](QUICK))
    import_paths: tuple[str, ...] = ()
    reopens: bool = False
    kills_owner: bool = False
    clock: str | None = None
    report_path: str = ""

    def as_members(self) -> dict[str, Any]:
        """Return the order as JSON data.

        Raises:
            UsageError: the inputs are no JSON.
        """
        members = asdict(self)
        try:
            same = json.loads(json.dumps(members["inputs"])) == members["inputs"]
        except (TypeError, ValueError) as problem:
            raise UsageError(f"inputs travel to another process as JSON, and these do not: {problem}") from problem
        if not same:
            raise UsageError("inputs travel to another process as JSON, and these would arrive as something else")
        return members

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Order:
        """Return the order that ``as_members`` wrote."""
        known = {name: members[name] for name in (item.name for item in fields(cls)) if name in members}
        for name in ("policies", "import_paths"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a life is killed: the operator's crash knobs by name; several together must all match.

    Args:
        tool: after this tool returned, before its receipt is stored.
        tool_call_id: the same for one call, ``<run_id>.<n>``.
        phase: after a step of this phase was recorded as done.
        step: after the step of this name or id was recorded as done.
        point: at the N-th numbered point of the process.
    """

    tool: str | None = None
    tool_call_id: str | None = None
    phase: str | None = None
    step: str | None = None
    point: int | None = None

    def environ(self) -> dict[str, str]:
        """Return the variables that set the knobs.

        Raises:
            UsageError: no knob is set, or one has a value of the wrong form.
        """
        from perdure.runtime.crashpoints import KNOBS, PREFIX

        found = {name: str(value) for name, value in self._knobs().items()}
        if not found:
            names = ", ".join(f"{item.name}=" for item in fields(self))
            raise UsageError(f"where is it to crash? Name a place with {names}")
        for name, value in found.items():
            pattern, form = KNOBS[name]
            if not pattern.match(value):
                raise UsageError(f"{_word_of(name)}={value!r} is not {form}")
        return {f"{PREFIX}{name}": value for name, value in found.items()}

    def _knobs(self) -> dict[str, str | int]:
        values = {
            "AFTER_TOOL": self.tool,
            "AFTER_TOOL_CALL_ID": self.tool_call_id,
            "AFTER_PHASE": self.phase,
            "AFTER_STEP": self.step,
            "AT_POINT": self.point,
        }
        return {name: value for name, value in values.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{_word_of(name)}={value!r}" for name, value in self._knobs().items()) or "nowhere"


def _word_of(knob: str) -> str:
    return knob.removeprefix("AFTER_").removeprefix("AT_").lower()


def job_of(main: Main | str | Path) -> str:
    """Return how another process finds what is to be run.

    Args:
        main: a job file, ``file.py:main``, or a function at the top of a module.

    Raises:
        UsageError: the function cannot be found from outside: it stands inside another one, or has another name there.
    """
    if isinstance(main, str | Path):
        head, colon, function = str(main).rpartition(":")
        is_target = bool(colon) and "/" not in function and head.endswith(".py")
        path = Path(head if is_target else str(main)).absolute()
        return f"{path}:{function}" if is_target else str(path)
    name = getattr(main, "__qualname__", "")
    module = sys.modules.get(getattr(main, "__module__", None) or "")
    if not name.isidentifier() or getattr(module, name, None) is not main:
        raise UsageError(
            f"{name or main!r} runs in another process, which must be able to find it: define it with `def` or "
            "`async def` at the top of the file, not inside a function or a class"
        )
    source = inspect.getsourcefile(main)
    file = "" if source is None else str(Path(source).absolute())
    if module is not None and module.__package__ and _is_importable(module.__name__, file):
        return f"{module.__name__}:{name}"
    if not file.endswith(".py"):
        raise UsageError(f"{name} stands in no file that another process could load")
    return f"{file}:{name}"


def _is_importable(module: str, file: str) -> bool:
    """Return whether a module of a package is found by its name, which its relative imports need."""
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None and str(Path(found.origin).absolute()) == file
