"""What the constraints of a job refuse: calls by their names, and by where their arguments lead (R035)."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from perdure.core.destinations import refused_destinations
from perdure.model.toolcall import INNER_NAMESPACES


def constraint_problems(rules: Mapping[str, Any], namespace: str, name: str, request: Callable[[], str]) -> list[str]:
    """Return why a job does not let a call be made; of one that it lets be made nothing.

    Args:
        rules: the job's ``constraints``.
        request: gives the exact request as JSON, where it is needed.
    """
    found: list[str] = []
    entry = forbidden_by(rules.get("forbidden_actions") or (), namespace, name)
    if entry is not None:
        found.append(f"the job forbids {name} (forbidden_actions: {entry})")
    allowed = rules.get("allowed_domains") or ()
    if allowed and namespace not in INNER_NAMESPACES:
        where = refused_destinations(allowed, request())
        if where:
            found.append(f"it leads to {', '.join(where)}, and the job allows only {', '.join(allowed)}")
    return found


def forbidden_by(patterns: Iterable[str], namespace: str, name: str) -> str | None:
    """Return the entry of ``forbidden_actions`` that forbids a call, or ``None``.

    An entry is a name or a glob, of tools in any namespace, or ``namespace:name`` with globs on either side. Upper and
    lower case count as the same: a name that is only spelled differently is no way round. Memos, model turns and what
    else is no tool are forbidden only by an entry that names their namespace.
    """
    for pattern in patterns:
        space, colon, wanted = pattern.casefold().rpartition(":")
        if not _matches(wanted, name):
            continue
        if colon and not _matches(space, namespace):
            continue
        if colon or namespace not in INNER_NAMESPACES:
            return pattern
    return None


def _matches(pattern: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text.casefold(), pattern)
