"""What another policy would change: for the tools that are known, and for the calls that the ledger holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perdure.core.codec import decode
from perdure.core.policy_changes import call_changes, depends_on_arguments, named_tools, tool_changes
from perdure.model.policy import Policy, ToolDeclaration
from perdure.model.toolcall import LOCAL_NAMESPACE
from perdure.store.sql_store import SqlStore

Known = dict[tuple[str, str], ToolDeclaration]


def tools_between(old: Policy, new: Policy, known: Known, met: Iterable[tuple[str, str]] = ()) -> list[dict[str, Any]]:
    """Return the tools of which two policies say something different.

    Args:
        known: what registered tools declare of themselves.
        met: namespaces and names of tools that were called before.
    """
    named = {(namespace or LOCAL_NAMESPACE, name) for namespace, name in named_tools(old) | named_tools(new)}
    found: list[dict[str, Any]] = []
    for namespace, name in sorted(named | set(known) | set(met)):
        changes = tool_changes(old, new, declaration_of(known, namespace, name))
        if changes:
            found.append({"tool_name": name, "namespace": namespace, "changes": changes})
    return found


def calls_between(
    store: SqlStore, old: Policy, new: Policy, known: Known, run_id: str | None
) -> Iterator[dict[str, Any] | None]:
    """Yield for each call of the ledger what would be different, or ``None`` where nothing would."""
    same: dict[tuple[str, str], bool] = {}
    for call_no, tool_call_id, namespace, name in store.listed.tools_of_calls(run_id):
        tool = declaration_of(known, namespace, name)
        key = (namespace, name)
        if key not in same:
            by_argument = depends_on_arguments(old, tool) or depends_on_arguments(new, tool)
            same[key] = not by_argument and not tool_changes(old, new, tool)
        if same[key]:
            yield None
            continue
        changes = call_changes(old, new, tool, decode(store.listed.request(call_no)))
        yield {"tool_call_id": tool_call_id, "tool_name": name, "changes": changes} if changes else None


def declaration_of(known: Known, namespace: str, name: str) -> ToolDeclaration:
    """Return what a tool says of itself; of one that is not known, its bare name."""
    return known.get((namespace, name)) or ToolDeclaration(name, namespace)
