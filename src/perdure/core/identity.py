"""What a call is: relations, keys, and which earlier row a call finds (semantics.md §1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from perdure.core.codec import canonical, sha256_hex
from perdure.model.toolcall import CallKey, CallRow, CallStatus, Repeat

SCOPE_UNDECLARED = None


def args_hash(arguments: Mapping[str, Any], *, volatile: Iterable[str] = ()) -> str:
    """Return the hash of canonical arguments without the volatile ones (R053).

    Args:
        arguments: bound to the signature, those equal to their default dropped.
        volatile: names that do not belong to a call's identity.

    Raises:
        Unstorable: an argument has no JSON form.
    """
    dropped = set(volatile)
    kept = {name: value for name, value in arguments.items() if name not in dropped}
    return sha256_hex(canonical(kept))


def effect_scope(arguments: Mapping[str, Any], scope: Sequence[str] | None) -> str | None:
    """Return the values of the declared scope as canonical text, or ``None`` where no scope is declared (R054)."""
    if scope is None:
        return SCOPE_UNDECLARED
    return canonical({name: arguments.get(name) for name in scope}).decode("utf-8")


def idempotency_key(ledger_id: str, run_id: str, key: CallKey, scope: str | None, occurrence: int) -> str:
    """Return the key that is computed once, stored and sent; never recomputed to find a row (F4)."""
    parts = (ledger_id, run_id, key.namespace, key.tool_name, key.args_hash, scope or "", str(occurrence))
    return sha256_hex(*(part.encode("utf-8") for part in parts))


def equal(row: CallRow, key: CallKey) -> bool:
    """Return whether a row has the same namespace, tool and canonical arguments (R1)."""
    return row.args_hash == key.args_hash and row.tool_name == key.tool_name and row.tool_namespace == key.namespace


def kin(row: CallRow, key: CallKey, scope: str | None, *, unmet: bool) -> bool:
    """Return whether a row is of the same tool and the same declared scope (R1).

    With no scope declared, an unmet row of the same tool is kin, and a seen one only if it is equal.
    """
    if row.tool_name != key.tool_name or row.tool_namespace != key.namespace:
        return False
    if scope is None:
        return True if unmet else equal(row, key)
    return row.effect_scope == scope


def adoptable(rows: Sequence[CallRow], key: CallKey, branch: str, stand_ins: set[str]) -> CallRow | None:
    """Return the unmet equal row that a call adopts (F3).

    Args:
        rows: unmet rows, oldest first.
        key: the call.
        branch: the spawn path of the caller; its own row is preferred, else the oldest.
        stand_ins: ids that some live row names as its ``same_as``.
    """
    found = [row for row in rows if equal(row, key) and not row.void and row.tool_call_id not in stand_ins]
    for row in found:
        if row.branch == branch:
            return row
    return found[0] if found else None


def joinable(rows: Sequence[CallRow], key: CallKey) -> CallRow | None:
    """Return the equal row that a call joins under ``no_duplicate_external_actions: true`` (F3b)."""
    for row in rows:
        if equal(row, key) and row.status is not CallStatus.FAILED and not row.void:
            return row
    return None


class Gate(Enum):
    """What the guard says of a start."""

    PASS = "pass"
    WAIT = "wait"
    CHALLENGE_UNMET = "challenge_unmet"
    CHALLENGE_SEEN = "challenge_seen"


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """What the guard looks at, all read inside the transaction that would start the call.

    ``unmet_kin`` and ``seen_kin`` are oldest first; ``passed`` holds the ids a person passed for this row only;
    ``repeat`` is ``None`` where no rule and no declaration says anything.
    """

    unmet_kin: tuple[CallRow, ...]
    seen_kin: tuple[CallRow, ...]
    passed: frozenset[str]
    repeat: Repeat | None
    cited: str | None = None


_DID = (CallStatus.SUCCEEDED, CallStatus.ABANDONED)


def guard(facts: GuardFacts) -> tuple[Gate, tuple[CallRow, ...]]:
    """Decide whether an effectful call may start, and name the kin that speak against it (G1-G3, function agents)."""
    doubtful = tuple(row for row in (*facts.unmet_kin, *facts.seen_kin) if row.status is CallStatus.IN_DOUBT)
    if doubtful:
        return Gate.WAIT, doubtful
    if facts.repeat is Repeat.ALLOW:
        return Gate.PASS, ()
    unmet = tuple(r for r in facts.unmet_kin if r.status in _DID and r.tool_call_id not in facts.passed)
    if unmet:
        return Gate.CHALLENGE_UNMET, unmet
    if facts.repeat is None or facts.cited is not None:
        return Gate.PASS, ()
    seen = tuple(r for r in facts.seen_kin if r.status in _DID and r.tool_call_id not in facts.passed)
    return (Gate.CHALLENGE_SEEN, seen) if seen else (Gate.PASS, ())


def citation_error(cited: str, seen_kin: Sequence[CallRow], already_cited: bool) -> str | None:
    """Return why ``repeat_of`` is not valid, naming the right id, or ``None`` (G3).

    It must be the newest kin, succeeded or abandoned, seen in this context, and not cited before.
    """
    done = [row for row in seen_kin if row.status in _DID]
    if not done:
        return f"repeat_of={cited}: nothing of this kind was done and seen in this life"
    newest = done[-1]
    if newest.tool_call_id != cited:
        return f"repeat_of={cited} is not the newest of its kind; the newest is {newest.tool_call_id}"
    if already_cited:
        return f"repeat_of={cited} was cited before; a receipt allows one repeat"
    return None
