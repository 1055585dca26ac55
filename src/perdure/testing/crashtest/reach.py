"""Which tools a program names, as far as that can be seen without running it.

A tool that is missed here is met by a clean run instead, which then stops before the tool is entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from perdure.runtime.registry import is_tool


def named_in(main: Callable[..., Any], folder: Path) -> set[str]:
    """Return every word by which the code of an agent, and what it calls in its own files, could name a tool.

    Args:
        main: the agent's function.
        folder: functions of files elsewhere are not followed.
    """
    words: set[str] = set()
    followed: set[CodeType] = set()
    waiting: list[Any] = [main]
    while waiting:
        function = waiting.pop()
        body = function.plain if is_tool(function) else function
        code = getattr(body, "__code__", None)
        if not isinstance(code, CodeType) or code in followed or not Path(code.co_filename).is_relative_to(folder):
            continue
        followed.add(code)
        found = set(_words(code))
        words |= found
        waiting += _values(getattr(body, "__globals__", {}), getattr(body, "__closure__", None), found)
    return words


def _words(code: CodeType) -> Iterator[str]:
    """Yield the names and the texts of a function and of those inside it."""
    yield from (*code.co_names, *code.co_freevars)
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _words(value)
        elif isinstance(value, str):
            yield value


def _values(names: dict[str, Any], closure: Iterable[Any] | None, words: set[str]) -> Iterator[Any]:
    """Yield what words mean in a module, the methods of classes included, and what a function has closed over."""
    for word in words & names.keys():
        value = names[word]
        yield value
        if isinstance(value, type):
            yield from vars(value).values()
    for cell in closure or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
