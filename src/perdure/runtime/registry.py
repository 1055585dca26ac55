"""The tools of a run, by name; settling needs them before the agent is entered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

from perdure.core.names import spellings
from perdure.model.errors import SpecError, ToolConflict
from perdure.ports.tool import Tool, made
from perdure.runtime.agent import names_of_module

AnyTool = Tool[Any, Any]


class Registry:
    """Tools by (namespace, name); two different tools of one name are an error."""

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._tools: dict[tuple[str, str], AnyTool] = {}
        for item in tools:
            self.add(item)

    def add(self, item: AnyTool) -> None:
        """Register a tool.

        Raises:
            ToolConflict: another function already has the name.
        """
        key = (item.declaration.namespace, item.name)
        known = self._tools.get(key)
        if known is None:
            self._tools[key] = item
        elif known is not item and not _same_function(known, item):
            raise ToolConflict(f"two tools are called {item.name!r}: {_where(known.plain)} and {_where(item.plain)}")

    def find(self, namespace: str, name: str) -> AnyTool | None:
        """Return the tool of a row, or ``None`` where this program does not have it.

        Settling needs a tool before the agent has called it, so one that the agent reaches only through other modules
        is looked for among all that this process has made.
        """
        return self._tools.get((namespace, name)) or made(namespace, name)

    def by_name(self, name: str) -> AnyTool | None:
        """Return the tool of a bare name."""
        found = [item for (_, known), item in self._tools.items() if known == name]
        return found[0] if len(found) == 1 else None

    def by_spelling(self, raw: str) -> AnyTool | None:
        """Return the tool that a caller means: by its name, or by the name with what agents put before it (R109)."""
        return next((found for name in spellings(raw) if (found := self.by_name(name)) is not None), None)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({name for _, name in self._tools})

    def copy(self) -> Registry:
        """Return a registry of its own for one run."""
        return Registry(self._tools.values())

    def add_reachable(self, function: Callable[..., Any]) -> None:
        """Register the tools that a function can see: its module's globals and its closure."""
        inner = getattr(function, "__wrapped__", function)
        for value in list(getattr(inner, "__globals__", {}).values()):
            if is_tool(value):
                self.add(value)
        for cell in getattr(inner, "__closure__", None) or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            if is_tool(value):
                self.add(value)


def is_tool(value: object) -> TypeGuard[AnyTool]:
    """Return whether something is a tool, of whatever parameters."""
    return isinstance(value, Tool)


def tools_of_module(name: str) -> list[AnyTool]:
    """Import a module and return the tools that it defines or imports.

    Raises:
        SpecError: it cannot be imported, or has no tool.
    """
    try:
        names = names_of_module(name)
    except Exception as problem:
        raise SpecError([f"tools: cannot import {name!r}: {type(problem).__name__}: {problem}"]) from problem
    found = [value for value in names.values() if is_tool(value)]
    if not found:
        raise SpecError([f"tools: the module {name!r} has no @tool"])
    return found


def _same_function(one: AnyTool, other: AnyTool) -> bool:
    first, second = getattr(one.plain, "__code__", None), getattr(other.plain, "__code__", None)
    return first is not None and first is second


def _where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
