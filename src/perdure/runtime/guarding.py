"""What the guard is asked, and what it looks at: everything that could speak against an effect (G1-G3).

Read while the ledger's lock is held, inside the transaction that would start the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.core.identity import Gate, GuardFacts, citation_error, guard, kin
from perdure.model.errors import UsageError
from perdure.model.toolcall import CallKey, CallRow, CallStatus, Repeat
from perdure.runtime.challenges import passed_for
from perdure.runtime.life import Life
from perdure.runtime.request import CallRequest
from perdure.store.sql_store import SqlStore

Checked = tuple[Gate, tuple[CallRow, ...], str]
"""What the guard says of a start, the kin behind it, and what is wrong with a citation."""

OPEN: Checked = (Gate.PASS, (), "")


def gate_of(life: Life, store: SqlStore, request: CallRequest, row: CallRow | None) -> Checked:
    """Return what the guard says of a wish to start; ``row`` is ``None`` where the call has none yet."""
    if not request.decision.side_effect_class.effectful or life.simulates(request.decision):
        return OPEN
    if life.lineage.ancestors:
        life.context.add_elsewhere(life.lineage.look(store, request.key))
    doubtful = doubts(life, store, row)
    if doubtful:
        return Gate.WAIT, doubtful, ""
    facts = _guard_facts(life, store, request, row)
    gate, against = guard(facts)
    problem = citation_error(facts) or "" if gate is Gate.WRONG_CITATION else ""
    if problem and request.reader is None:
        raise UsageError(problem, next_command=f"perdure calls ls {life.run_id}")
    return gate, against, problem


def _guard_facts(life: Life, store: SqlStore, request: CallRequest, row: CallRow | None) -> GuardFacts:
    own = row.call_no if row is not None else -1
    cited, repeat = request.options.repeat_of, _repeat(life, request)
    model_driven = request.reader is not None
    context, reader, meant = life.context, request.reader or life.context.main, _meant(request, row)
    others: list[CallRow] = []
    if cited is not None or repeat is not None or model_driven:
        others = store.kin.near(life.run_id, meant, own=own, cited=cited, listed=sorted(reader.listed))
        others += [store.calls.get(call_no) for call_no in life.lineage.of_tool(request.key)]
    near = [item for item in others if any(kin(item, key, scope, unmet=False) for key, scope in meant)]
    told = [item for item in others if item.call_no in reader.listed]
    unmet = tuple(item for item in _unmet_kin(life, store, request, row) if item.call_no not in reader.listed)
    return GuardFacts(
        unmet_kin=unmet,
        seen_kin=tuple(row for row in near if context.seen_by_any(row.call_no) or row in told),
        held_kin=tuple(row for row in near if context.holds(row.call_no) and not context.seen_by_any(row.call_no)),
        known_here=frozenset(row.tool_call_id for row in (*near, *told) if reader.knows(row.call_no)),
        told=tuple(row.tool_call_id for row in told),
        passed=passed_for(store, row),
        repeat=repeat,
        cited=cited,
        cited_before=any(item.repeat_of == cited for item in others) if cited is not None else False,
        model_driven=model_driven,
        elsewhere=frozenset(item.tool_call_id for item in unmet if life.lineage.is_elsewhere(item)),
    )


def doubts(life: Life, store: SqlStore, row: CallRow | None) -> tuple[CallRow, ...]:
    """Return what must be settled before a new effect of the run: rows in doubt, and running ones without a caller."""
    if not life.unsettled:
        # Nothing was in doubt when the agent was entered (R3), and nothing has been started since that is not settled.
        return ()
    return tuple(
        item
        for item in store.calls.open(life.run_id)
        if item.effectful
        and (row is None or item.call_no != row.call_no)
        and (
            item.status is CallStatus.IN_DOUBT
            or (
                item.status is CallStatus.RUNNING
                and item.call_no not in life.posted_receipts
                and life.operations.serving(item.call_no) is None
            )
        )
    )


def _repeat(life: Life, request: CallRequest) -> Repeat | None:
    if life.no_duplicates() is False:
        return Repeat.ALLOW
    return request.decision.repeat


def _unmet_kin(life: Life, store: SqlStore, request: CallRequest, row: CallRow | None) -> Iterator[CallRow]:
    own = row.call_no if row is not None else -1
    for call_no in life.context.unmet_of_tool(request.key):
        if call_no != own:
            other = store.calls.get(call_no)
            if not other.void and any(kin(other, key, scope, unmet=True) for key, scope in _meant(request, row)):
                yield other


def _meant(request: CallRequest, row: CallRow | None) -> tuple[tuple[CallKey, str | None], ...]:
    """Return what a call is, and, where a person has edited its request, what it will do as well."""
    asked = (request.key, request.scope)
    if row is None or row.edited_args_hash is None:
        return (asked,)
    return asked, (request.key._replace(args_hash=row.edited_args_hash), row.edited_scope)
