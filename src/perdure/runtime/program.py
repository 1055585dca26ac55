"""The program of a run: main, critic and tools, loaded and looked at before there is a row of the run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.model.errors import SpecError
from perdure.model.problem import Problem
from perdure.runtime.agent import load_agent, near_path
from perdure.runtime.registry import Registry, is_tool, tools_of_module

Main = Callable[..., Any]
Place = Callable[[str, str], Problem]
"""Makes a problem out of a key of the job file and a text."""


def load_program(
    target: str, folder: Path, registry: Registry, *, critic: str | None, tools: Sequence[str], place: Place
) -> Main:
    """Return the function of a job's agent; its tools are added to the registry.

    Args:
        target, critic: ``module:function`` or ``file.py:function``, looked for in ``folder``.
        tools: importable modules.

    Raises:
        SpecError: something cannot be loaded, with its place in the job file.
    """
    with _placed("agent.python", place):
        main = load_agent(target, folder)
    if critic is not None:
        with _placed("critic", place):
            load_agent(critic, folder, "critic")
    for number, module in enumerate(tools):
        with _placed(f"tools.{number}", place):
            for item in tools_of_module(module):
                registry.add(item)
    return main


@contextmanager
def _placed(key: str, place: Place) -> Generator[None]:
    try:
        yield
    except SpecError as problem:
        found = [each if each.file else place(key, each.text) for each in problem.found]
        raise SpecError(found, next_command=problem.next_command) from problem.__cause__


@contextmanager
def untouched() -> Generator[None]:
    """Let an error of a program say that the run, which is there already, is as it was."""
    try:
        yield
    except SpecError as problem:
        problem.safe = "The run is untouched, and nothing was sent."
        raise


def refuse_uncallable(main: Main) -> None:
    """Refuse a main that the run cannot be given to.

    Raises:
        SpecError: it takes another number of arguments, or its body would not be entered; with the function's place.
    """
    said = _unsuited(main)
    if said is None:
        return
    file, line, col = place_of(main)
    next_command = "correct the function, and run the same command again"
    raise SpecError([Problem(file, line, col, f"agent: {said}")], next_command=next_command)


def _unsuited(main: Main) -> str | None:
    name = str(getattr(main, "__name__", type(main).__name__))
    if is_tool(main):
        return f"{main.name} is a tool; a run needs a function that calls it: def main(run)"
    if inspect.isclass(main):
        return f"{name} is a class; a run needs a function: def main(run)"
    if inspect.isgeneratorfunction(main) or inspect.isasyncgenfunction(main):
        return f"{name} is a generator, for it has a yield: its body would never be entered; let it return its result"
    try:
        signature = inspect.signature(main, follow_wrapped=False)  # a decorator may give what the function needs
    except (TypeError, ValueError):  # some of those that are written in C do not say
        return None
    try:
        signature.bind(object())
    except TypeError:
        takes = f"{name}{signature} takes other ones; what it needs comes from run.inputs"
        none = f"{name}() takes none"
        return f"main is called with one argument, the run, and {takes if signature.parameters else none}: " + (
            f"write def {name}(run)"
        )
    return None


def finished(result: Any) -> Any:
    """Return what a plain main returned.

    Raises:
        TypeError: it is a coroutine: nothing of it was done, and nobody will await it.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(f"main returned the coroutine {result.__qualname__}, which nobody awaits: write async def main")
    return result


def place_of(function: Callable[..., Any]) -> tuple[str, int, int]:
    """Return file, line and column of a function's ``def``; an empty file where it has no source."""
    plain = getattr(function, "plain", None) if is_tool(function) else inspect.unwrap(function)
    if not (inspect.isfunction(plain) or inspect.ismethod(plain) or inspect.isclass(plain)):
        plain = type(plain).__call__
    try:
        file = inspect.getsourcefile(plain) or ""
        lines, first = inspect.getsourcelines(plain)
    except (OSError, TypeError):
        return "", 0, 0
    words = ("def ", "async def ", "class ")
    at = next((number for number, line in enumerate(lines) if line.lstrip().startswith(words)), 0)
    return near_path(file), first + at, len(lines[at]) - len(lines[at].lstrip()) + 1
