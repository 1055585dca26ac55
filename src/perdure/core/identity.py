"""What a call is: relations, keys, and which earlier row a call finds (semantics.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from perdure.core.codec import canonical, sha256_hex
from perdure.model.toolcall import CallKey, CallRow, CallStatus, Repeat

SCOPE_UNDECLARED = None
FILES = "$files"
"""Where the digests of the files of a call stand beside its arguments; no argument can be called so."""


def args_hash(
    arguments: Mapping[str, Any],
    *,
    volatile: Iterable[str] = (),
    files: Mapping[str, str | None] | None = None,
    digest: Callable[[bytes], str] = sha256_hex,
) -> str:
    """Return the hash of canonical arguments without the volatile ones (R053).

    Args:
        arguments: bound to the signature, those equal to their default dropped.
        volatile: names that do not belong to a call's identity.
        files: SHA-256 of the files that the arguments name, by their paths; ``None`` where there is none (R054).
        digest: hashes the canonical text; keyed where a short secret in it could be guessed.

    Raises:
        Unstorable: an argument has no JSON form.
    """
    dropped = set(volatile)
    kept = {name: value for name, value in arguments.items() if name not in dropped}
    if files:
        kept[FILES] = files
    return digest(canonical(kept))


def effect_scope(arguments: Mapping[str, Any], scope: Sequence[str] | None) -> str | None:
    """Return the values of the declared scope as canonical text, or ``None`` where no scope is declared (R054)."""
    if scope is None:
        return SCOPE_UNDECLARED
    return canonical({name: arguments.get(name) for name in scope}).decode("utf-8")


def request_hash(stored: str, digest: Callable[[bytes], str] = sha256_hex) -> str:
    """Return the hash of a request exactly as it is stored: what a person's consent is bound to."""
    return digest(stored.encode("utf-8"))


def idempotency_key(ledger_id: str, run_id: str, key: CallKey, scope: str | None, occurrence: int) -> str:
    """Return the key that is computed once, stored and sent; never recomputed to find a row (F4)."""
    parts = (ledger_id, run_id, key.namespace, key.tool_name, key.args_hash, scope or "", str(occurrence))
    return sha256_hex(*(part.encode("utf-8") for part in parts))


def equal(row: CallRow, key: CallKey) -> bool:
    """Return whether a row has the same namespace, tool and canonical arguments (R1)."""
    return row.args_hash == key.args_hash and row.tool_name == key.tool_name and row.tool_namespace == key.namespace


def kin(row: CallRow, key: CallKey, scope: str | None, *, unmet: bool) -> bool:
    """Return whether a row is of the same tool and the same declared scope (R1).

    With no scope declared, an unmet row of the same tool is kin, and a seen one only if it is equal. A row whose
    request a person has edited is kin by what it asked for and by what it did.
    """
    if row.tool_name != key.tool_name or row.tool_namespace != key.namespace:
        return False
    if scope is None:
        return True if unmet else alike(row, key)
    return scope in (row.effect_scope, row.edited_scope)


def alike(row: CallRow, key: CallKey) -> bool:
    """Return whether a row is equal to a call, or was edited into one that is."""
    same_tool = row.tool_name == key.tool_name and row.tool_namespace == key.namespace
    return same_tool and key.args_hash in (row.args_hash, row.edited_args_hash)


def adoptable(rows: Sequence[CallRow], key: CallKey, branch: str, stand_ins: set[str]) -> CallRow | None:
    """Return the unmet equal row that a call adopts (F3).

    Args:
        rows: unmet rows, oldest first.
        key: the call.
        branch: the spawn path of the caller; its own row is preferred, else the oldest.
        stand_ins: ids that some live row names as its ``same_as``, and the one that the call itself cites: who asks for
            a second one does not mean the first.
    """
    found = [row for row in rows if equal(row, key) and not row.void and row.tool_call_id not in stand_ins]
    for row in found:
        if row.branch == branch:
            return row
    return found[0] if found else None


def joinable(rows: Sequence[CallRow], key: CallKey) -> CallRow | None:
    """Return the equal row that a call joins under ``no_duplicate_external_actions: true`` (F3b)."""
    for row in rows:
        if alike(row, key) and row.status is not CallStatus.FAILED and not row.void:
            return row
    return None


class Gate(Enum):
    """What the guard says of a start."""

    PASS = "pass"
    WAIT = "wait"
    CHALLENGE_UNMET = "challenge_unmet"
    CHALLENGE_SEEN = "challenge_seen"
    WRONG_CITATION = "wrong_citation"


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """What the guard looks at, all read inside the transaction that would start the call.

    Args:
        unmet_kin, seen_kin: oldest first; unmet to the reader who asks for this call, seen by any.
        known_here: ids of those that this very reader has seen, or was told of: only they can be cited.
        told: ids of rows of the tool that a challenge has told it of, kin or not.
        held_kin: kin that other live calls hold; a model is told of them, a program's twins are no concern of it.
        passed: ids that a person passed for this row only.
        repeat: what a rule or a declaration says of repeats; ``None`` leaves it to the kind of caller.
        cited: ``repeat_of``.
        cited_before: another call has cited the same one.
        elsewhere: ids of kin that stand in a run this one was forked from: what is in doubt there is settled there, so
            it is not waited for but asked about.
        model_driven: a model asked for the call, and reads what becomes of it.
    """

    unmet_kin: tuple[CallRow, ...]
    seen_kin: tuple[CallRow, ...]
    passed: frozenset[str]
    repeat: Repeat | None
    cited: str | None = None
    cited_before: bool = False
    known_here: frozenset[str] = frozenset()
    told: tuple[str, ...] = ()
    held_kin: tuple[CallRow, ...] = ()
    model_driven: bool = False
    elsewhere: frozenset[str] = frozenset()


_DID = (CallStatus.SUCCEEDED, CallStatus.ABANDONED)
_MAY_HAVE = (CallStatus.RUNNING, CallStatus.IN_DOUBT)


def guard(facts: GuardFacts) -> tuple[Gate, tuple[CallRow, ...]]:
    """Decide whether an effectful call may start, and name the kin that speak against it (G1-G3)."""
    waited_for = _waited_for(facts)
    if waited_for:
        return Gate.WAIT, waited_for
    unmet = tuple(row for row in facts.unmet_kin if _did_or_may_have(row, facts) and not _is_passed(row, facts))
    if unmet and facts.repeat is not Repeat.ALLOW:
        return Gate.CHALLENGE_UNMET, unmet
    if facts.cited is not None:
        valid = citation_error(facts) is None
        return (Gate.PASS, ()) if valid else (Gate.WRONG_CITATION, _newest_last(facts))
    if facts.repeat is Repeat.ALLOW or (facts.repeat is None and not facts.model_driven):
        return Gate.PASS, ()
    known = _done(_newest_last(facts), facts.passed)
    return (Gate.CHALLENGE_SEEN, known) if known else (Gate.PASS, ())


def _waited_for(facts: GuardFacts) -> tuple[CallRow, ...]:
    kin_rows = (*facts.unmet_kin, *facts.seen_kin, *facts.held_kin)
    awaited = (CallStatus.IN_DOUBT, CallStatus.RUNNING) if facts.model_driven else (CallStatus.IN_DOUBT,)
    return tuple(row for row in kin_rows if row.status in awaited and row.tool_call_id not in facts.elsewhere)


def _did_or_may_have(row: CallRow, facts: GuardFacts) -> bool:
    return row.status in _DID or (row.tool_call_id in facts.elsewhere and row.status in _MAY_HAVE)


def _is_passed(row: CallRow, facts: GuardFacts) -> bool:
    return row.tool_call_id in facts.passed


def _done(rows: Iterable[CallRow], passed: frozenset[str]) -> tuple[CallRow, ...]:
    return tuple(row for row in rows if row.status in _DID and row.tool_call_id not in passed)


def _newest_last(facts: GuardFacts) -> tuple[CallRow, ...]:
    """Return what a repeat would repeat: to a model also what others of its calls have done."""
    rows = (*facts.seen_kin, *facts.held_kin) if facts.model_driven else facts.seen_kin
    return tuple(sorted(_done(rows, frozenset()), key=lambda row: row.call_no))


def citation_error(facts: GuardFacts) -> str | None:
    """Return why ``repeat_of`` is not valid, naming the right id, or ``None`` (G3).

    It must be the newest kin, succeeded or abandoned, seen in this context, and not cited before.
    """
    done = _newest_last(facts)
    if not done:
        if facts.cited in facts.told and not facts.cited_before:
            return None  # cited as a challenge has said, where nothing is in its way any more
        return f"repeat_of={facts.cited}: nothing of this kind was done and seen in this life; ask without it"
    newest = done[-1].tool_call_id
    if newest != facts.cited:
        return f"repeat_of={facts.cited} is not the newest of its kind; the newest is {newest}"
    if newest not in facts.known_here:
        return f"repeat_of={facts.cited}: its result was not seen here yet"
    if facts.cited_before:
        return f"repeat_of={facts.cited} was cited before; a receipt allows one repeat"
    return None
