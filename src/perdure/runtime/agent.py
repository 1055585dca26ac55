"""Find an agent's function: by module, or in a file; a script that runs itself is stopped before it does."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from perdure.model.errors import SpecError
from perdure.model.problem import Problem, did_you_mean

loading: ContextVar[bool] = ContextVar("perdure_loading", default=False)
"""True while an agent's file is imported, so that a ``perdure.run(...)`` at its end does not start a second run."""


class LoadedFar(BaseException):
    """The file being loaded has reached its own ``perdure.run``; everything above it is defined."""


def load_agent(target: str, folder: Path, role: str = "agent") -> Callable[..., Any]:
    """Return the function that ``module:function`` or ``file.py:function`` names.

    Args:
        target: the agent of a run's specification.
        folder: put on ``sys.path``; files are looked for in it.
        role: what it is to the job.

    Raises:
        SpecError: it cannot be imported or is no function.
    """
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    place, _, name = target.partition(":")
    _refuse_namesake(place, folder)
    try:
        namespace = _load_file(folder / place) if place.endswith(".py") else names_of_module(place)
    except Exception as problem:
        said = f"{role}: cannot load {target!r} from {folder}: {type(problem).__name__}: {problem}"
        raise SpecError([Problem(*_raised_at(problem, folder), said)]) from problem
    found = namespace.get(name)
    if not callable(found):
        raise SpecError([f"{role}: {place} has no function {name!r}{_nearest(name, namespace)}"])
    function: Callable[..., Any] = found
    return function


def _raised_at(problem: Exception, folder: Path) -> tuple[str, int, int]:
    """Return file, line and column of a mistake that loading has found; an empty file where it is in none of these."""
    if isinstance(problem, SyntaxError) and problem.filename is not None:
        return near_path(problem.filename), problem.lineno or 0, problem.offset or 1
    own = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if Path(frame.filename).is_relative_to(folder) and not frame.filename.startswith(_NOT_THEIRS)
    ]
    return (near_path(own[-1].filename), own[-1].lineno or 0, (own[-1].colno or 0) + 1) if own else ("", 0, 0)


_NOT_THEIRS = (str(Path(__file__).parents[1]), str(Path(sys.prefix)))
"""Where no mistake of the program is: here, and in what is installed."""


def near_path(file: str) -> str:
    """Return the path of a file as somebody in the working directory types it."""
    near = os.path.relpath(file)
    return file if near.startswith("..") else near


def _nearest(name: str, namespace: Mapping[str, Any]) -> str:
    known = [each for each, value in namespace.items() if callable(value) and not each.startswith("__")]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return did_you_mean(near[0]) if near else ""


def _refuse_namesake(place: str, folder: Path) -> None:
    """Refuse a module that another job's folder has loaded under the same name: it would be another program.

    Raises:
        SpecError: this process has one.
    """
    known = getattr(sys.modules.get(place), "__file__", None)
    own = folder / f"{place.replace('.', '/')}.py"
    if known is not None and own.is_file() and Path(known).resolve() != own.resolve():
        raise SpecError(
            [f"agent: this process has loaded another module {place!r}, from {known}"],
            next_command="run it in a process of its own",
        )


def names_of_module(name: str) -> dict[str, Any]:
    """Import a module and return its names; a ``perdure.run(...)`` at its end is where the loading stops.

    Raises:
        ImportError: it cannot be found; and whatever it raises itself.
    """
    known = sys.modules.get(name)
    if known is not None:
        return vars(known)
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"no module named {name!r}", name=name)
    return _execute(spec)


def _load_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return vars(known)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None:
        raise ImportError(f"{path} is no Python file")
    return _execute(spec)


def _execute(spec: ModuleSpec) -> dict[str, Any]:
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    parent, _, child = spec.name.rpartition(".")
    token = loading.set(True)
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except LoadedFar:
        return vars(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    finally:
        loading.reset(token)
    if parent:
        setattr(sys.modules[parent], child, module)
    return vars(module)


def describe(function: Callable[..., Any]) -> tuple[str, str | None]:
    """Return the target of a function and the file it stands in.

    A function of the program's main script is named by its file, so that another process can load it.
    """
    try:
        file = inspect.getsourcefile(function)
    except TypeError:
        file = None
    name = getattr(function, "__qualname__", type(function).__name__)
    module = getattr(function, "__module__", None) or "__main__"
    loadable = file is not None and Path(file).is_file() and "<" not in name
    if module == "__main__" and file is not None and Path(file).suffix == ".py":
        return f"{Path(file).name}:{name}", str(Path(file).resolve()) if loadable else None
    return f"{module}:{name}", str(Path(file).resolve()) if file is not None and loadable else None


def name_of(agent: str) -> str:
    """Return what a run of an agent is called: its module, or the stem of its file."""
    place = agent.partition(":")[0]
    return Path(place).stem if place.endswith(".py") else place
