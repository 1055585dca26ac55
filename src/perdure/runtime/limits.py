"""What keeps something from starting: a budget that is used up, or a question that goes before any other effect.

A limit that is reached pauses the run and asks: what is in flight finishes, nothing new starts, and one inbox item says
what was used and how more is granted (R036 to R040, C8). The account itself stands in the ledger, which charges a call
in the statement that starts it; here it is only looked at.
"""

from __future__ import annotations

import json
from dataclasses import replace

from perdure.core.budget import Hit, Limit, Usage, allowance, suggested
from perdure.model.run import WaitReason
from perdure.model.toolcall import INNER_NAMESPACES, CallStatus
from perdure.runtime.account import ALWAYS_ASKS_AFTER
from perdure.runtime.actions import Commit, Loop, Park
from perdure.runtime.life import Life
from perdure.runtime.request import CallRequest
from perdure.store.questions import Question
from perdure.store.sql_store import SqlStore

BUDGET_KIND = "budget"


def load(life: Life, store: SqlStore) -> None:
    """Read the account of a run at the beginning of a life; a run with budgets gets one."""
    account, budgets = life.account, life.section("budgets")
    account.budgets = allowance(budgets)
    asks = life.section("escalation").get("ask_human_on_repeated_failures") is True
    named = budgets.get("max_same_error_repeats")
    account.repeats = int(named) if named is not None else ALWAYS_ASKS_AFTER if asks else None
    if (account.budgets or account.repeats) and store.budgets.get(life.run_id) is None:
        store.budgets.open(life.run_id)
    refresh(life, store)
    for question in store.questions.open(life.run_id):
        _take_up(life, store, question)


def _take_up(life: Life, store: SqlStore, question: Question) -> None:
    account = life.account
    if question.kind == BUDGET_KIND:
        account.question = question.approval_id
        account.stopped_by = stopped_by(question)
    elif question.escalation is not None and question.tool_call_id is not None:
        row = store.calls.by_id(question.tool_call_id)
        if row is not None:
            account.escalated.add(row.call_no)


def stopped_by(question: Question) -> tuple[Hit, Limit | None]:
    """Return which limit a question of kind budget is about, and what wanted to start."""
    told = json.loads(question.detail or "{}")
    limit, wanted = Limit(told["limit"]), told.get("wanted")
    return Hit(limit, int(told["used"]), int(told["allowed"])), Limit(wanted) if wanted else None


def refresh(life: Life, store: SqlStore) -> None:
    """Read what is used and granted by now."""
    account = life.account
    granted = store.budgets.granted(life.run_id)
    account.allowed = account.budgets.plus(granted)
    account.retries = int(granted.get(Limit.RETRIES, 0))
    known = store.budgets.get(life.run_id)
    if known is None:
        return
    account.shared = known.shared
    account.read(replace(known.usage, active_ms=int(known.active_seconds * 1000)))
    account.last_error, account.last_error_tool = known.last_error, known.last_error_tool


def granted_retries(store: SqlStore, run_id: str) -> int:
    """Return how many requests beside ``max_retries_per_tool_call`` a call of the run may cost."""
    return int(store.budgets.granted(run_id).get(Limit.RETRIES, 0))


def charge_time(life: Life) -> float:
    """Return the active seconds to be charged now; they count as charged from here on."""
    seconds = max(0.0, life.active_seconds() - life.account.charged_seconds)
    life.account.charged_seconds += seconds
    return seconds


# --- at each start -----------------------------------------------------------------------------------------------


def held(life: Life, store: SqlStore, request: CallRequest) -> WaitReason | None:
    """Return what a call must wait for before it starts, or ``None``; what may start is counted."""
    if life.account.escalated and request.decision.side_effect_class.effectful and _still_escalated(life, store):
        return WaitReason.QUESTION
    if request.unlimited:
        return None
    wants = None if request.key.namespace in INNER_NAMESPACES else Limit.CALLS
    return WaitReason.BUDGET if over_budget(life, store, wants) else None


def _still_escalated(life: Life, store: SqlStore) -> bool:
    escalated = life.account.escalated
    asked = {n for n in escalated if store.calls.get(n).status is CallStatus.AWAITING_APPROVAL}
    escalated.intersection_update(asked)
    return bool(asked)


def over_budget(life: Life, store: SqlStore, wants: Limit | None) -> bool:
    """Return whether a limit is reached, and ask about it once; what may start is counted.

    Memory decides where it lets something start. Before it holds something back the ledger is read, which knows of
    grants and of calls that were given back.
    """
    account = life.account
    if not account.allowed:
        return False
    stopped = account.stopped_by
    if stopped is None and not account.shared and account.hit(wants, life.active_seconds()) is None:
        account.took(wants)
        return False
    refresh(life, store)
    found = account.hit(wants, life.active_seconds())
    before = stopped[1] if stopped is not None else wants
    found = found or account.hit(before, life.active_seconds())
    if found is None:
        close(life, store, "more was granted, or given back")
        account.took(wants)
        return False
    account.stopped_by = (found, wants if stopped is None else before)
    _ask(life, store, found, account.stopped_by[1])
    return True


def close(life: Life, store: SqlStore, why: str) -> None:
    """Close the question about a limit that is reached no more."""
    account = life.account
    if account.question is not None:
        open_still = store.questions.get(account.question)
        if open_still is not None and open_still.status == "open":
            store.questions.answer(account.question, life.authority, answer=why, actor="perdure", now=life.now())
    account.question = account.stopped_by = None


def _ask(life: Life, store: SqlStore, found: Hit, wanted: Limit | None) -> None:
    account = life.account
    known = store.questions.get(account.question) if account.question is not None else None
    if known is not None and known.status == "open":
        return
    account.question = "a" + life.around.new_token()
    told = {
        "limit": found.limit,
        "used": found.used,
        "allowed": found.allowed,
        "wanted": wanted,
        "grant": suggested(found),
    }
    store.questions.ask(
        account.question,
        run_id=life.run_id,
        fence=life.fence,
        tool_call_id=None,
        kind=BUDGET_KIND,
        summary=f"{found.said}; nothing new starts until more is granted",
        detail=json.dumps(told),
        now=life.now(),
    )


def admit_step(life: Life) -> Loop:
    """Wait until a new step may start, where the steps or another budget of the run are used up."""
    while (yield Commit(lambda store: over_budget(life, store, Limit.STEPS))):
        yield Park(WaitReason.BUDGET)


def step_may_start(life: Life) -> bool:
    """Return whether a new step may start by what this life knows, and count it if so."""
    account = life.account
    if not account.allowed:
        return True
    if account.shared or account.stopped_by is not None or account.hit(Limit.STEPS, life.active_seconds()):
        return False
    account.took(Limit.STEPS)
    return True


def may_bar(life: Life) -> bool:
    """Return whether a question stood open at the beginning of this life that ``barred`` has to look at."""
    return bool(life.account.escalated) or life.account.stopped_by is not None


def barred(life: Life, store: SqlStore) -> WaitReason | None:
    """Return what a person must answer before the agent is entered at all, or ``None``.

    A run that waits for a grant does nothing when it is resumed without one.
    """
    account = life.account
    if account.escalated and _still_escalated(life, store):
        return WaitReason.QUESTION
    if account.stopped_by is None:
        return None
    found = account.hit(account.stopped_by[1], life.active_seconds())
    if found is not None:
        return WaitReason.BUDGET
    close(life, store, "more was granted, or given back")
    return None


# --- what was used -----------------------------------------------------------------------------------------------


def charge_usage(life: Life, store: SqlStore, tokens: int, usd_micros: int) -> None:
    """Add what an agent reports to the account, in the transaction of the receipt that it stands in."""
    if not store.budgets.charge(life.run_id, life.fence, tokens=tokens, usd_micros=usd_micros):
        store.budgets.open(life.run_id)
        store.budgets.charge(life.run_id, life.fence, tokens=tokens, usd_micros=usd_micros)
    life.account.spent(tokens, usd_micros)


def usage_of(store: SqlStore, run_id: str) -> Usage:
    """Return what a run has used, whether it has budgets or not."""
    known = store.budgets.get(run_id)
    if known is None:
        return Usage()
    return replace(known.usage, active_ms=int(known.active_seconds * 1000))
