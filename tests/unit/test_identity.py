"""What makes two calls the same, alike or different, and what speaks against starting one (R1, F3, G1 to G3)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.identity import (
    Gate,
    GuardFacts,
    adoptable,
    args_hash,
    citation_error,
    effect_scope,
    equal,
    guard,
    idempotency_key,
    joinable,
    kin,
)
from perdure.model.toolcall import CallKey, CallRow, CallStatus, Repeat, ReplayPolicy, SideEffectClass

KEY = CallKey("local", "send_mail", "hash-1")
SCOPE = '{"to":"a"}'
SETTLED = [status for status in CallStatus if status.settled]


def row(number: int = 1, **changes: Any) -> CallRow:
    """Return a succeeded row that is equal to KEY."""
    fields: dict[str, Any] = {
        "call_no": number,
        "tool_call_id": f"r1.{number}",
        "run_id": "r1",
        "step_id": "r1.s0",
        "tool_namespace": "local",
        "tool_name": "send_mail",
        "side_effect_class": SideEffectClass.EXTERNAL,
        "replay_policy": ReplayPolicy.ASK,
        "status": CallStatus.SUCCEEDED,
        "attempt": 1,
        "occurrence": 1,
        "args_hash": "hash-1",
        "effect_scope": SCOPE,
        "idempotency_key": f"key-{number}",
        "fence": 1,
        "branch": "0",
    }
    return CallRow(**{**fields, **changes})


# --- hashes, scopes and keys -----------------------------------------------------------------------------------------


def test_volatile_arguments_do_not_belong_to_a_call() -> None:
    one = args_hash({"to": "a", "request_id": 1}, volatile=["request_id"])
    assert one == args_hash({"request_id": 2, "to": "a"}, volatile=["request_id"])
    assert one == args_hash({"to": "a"})
    assert one != args_hash({"to": "a", "request_id": 1})
    assert one != args_hash({"to": "b"})


def test_a_scope_is_the_values_of_its_arguments() -> None:
    scope = effect_scope({"to": "a", "subject": "x", "body": "y"}, ["to", "subject"])
    assert scope == effect_scope({"subject": "x", "to": "a", "body": "z"}, ["subject", "to"])
    assert scope != effect_scope({"to": "a", "subject": "z", "body": "y"}, ["to", "subject"])
    assert effect_scope({"to": "a"}, None) is None
    assert effect_scope({"to": "a"}, []) == effect_scope({"to": "b"}, []) == "{}"
    assert effect_scope({}, ["to"]) == '{"to":null}'


@pytest.mark.parametrize(
    "changed",
    [
        ("ledger-2", "r1", KEY, SCOPE, 1),
        ("ledger-1", "r2", KEY, SCOPE, 1),
        ("ledger-1", "r1", KEY._replace(namespace="mcp"), SCOPE, 1),
        ("ledger-1", "r1", KEY._replace(tool_name="send_mai"), SCOPE, 1),
        ("ledger-1", "r1", KEY._replace(args_hash="hash-2"), SCOPE, 1),
        ("ledger-1", "r1", KEY, '{"to":"b"}', 1),
        ("ledger-1", "r1", KEY, None, 1),
        ("ledger-1", "r1", KEY, SCOPE, 2),
        ("ledger-1r", "1", KEY, SCOPE, 1),
    ],
)
def test_every_part_of_a_call_changes_its_key(changed: tuple[str, str, CallKey, str | None, int]) -> None:
    key = idempotency_key("ledger-1", "r1", KEY, SCOPE, 1)
    assert key == idempotency_key("ledger-1", "r1", KEY, SCOPE, 1)
    assert key != idempotency_key(*changed)


# --- relations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_equal", "kin_unmet", "kin_seen", "kin_undeclared_unmet", "kin_undeclared_seen"),
    [
        ({}, True, True, True, True, True),
        ({"args_hash": "hash-2"}, False, True, True, True, False),
        ({"effect_scope": '{"to":"b"}'}, True, False, False, True, True),
        ({"args_hash": "hash-2", "effect_scope": '{"to":"b"}'}, False, False, False, True, False),
        ({"effect_scope": None}, True, False, False, True, True),
        ({"tool_name": "pay"}, False, False, False, False, False),
        ({"tool_namespace": "mcp"}, False, False, False, False, False),
    ],
)
def test_equal_and_kin(
    changes: dict[str, Any],
    is_equal: bool,
    kin_unmet: bool,
    kin_seen: bool,
    kin_undeclared_unmet: bool,
    kin_undeclared_seen: bool,
) -> None:
    other = row(**changes)
    assert equal(other, KEY) is is_equal
    assert kin(other, KEY, SCOPE, unmet=True) is kin_unmet
    assert kin(other, KEY, SCOPE, unmet=False) is kin_seen
    assert kin(other, KEY, None, unmet=True) is kin_undeclared_unmet
    assert kin(other, KEY, None, unmet=False) is kin_undeclared_seen


@pytest.mark.parametrize(
    ("status", "changes", "is_void"),
    [
        *((status, {}, False) for status in CallStatus if status is not CallStatus.CANCELLED),
        (CallStatus.CANCELLED, {}, True),
        (CallStatus.CANCELLED, {"same_as": "r1.9"}, False),
        (CallStatus.FAILED, {"error_code": "challenged"}, True),
        (CallStatus.FAILED, {"error_code": "denied"}, False),
        (CallStatus.SUCCEEDED, {"error_code": "challenged"}, False),
    ],
)
def test_a_void_row_stands_for_nothing(status: CallStatus, changes: dict[str, Any], is_void: bool) -> None:
    assert row(status=status, **changes).void is is_void


# --- which row a call finds ------------------------------------------------------------------------------------------


def test_a_call_adopts_its_own_branch_first_and_then_the_oldest() -> None:
    rows = [row(1, branch="0.0"), row(2, branch="0.1"), row(3, branch="0.1")]
    assert adoptable(rows, KEY, "0.1", set()) == rows[1]
    assert adoptable(rows, KEY, "0.7", set()) == rows[0]
    assert adoptable(rows, KEY, "0.1", {"r1.2"}) == rows[2]
    assert adoptable(rows, KEY, "0.1", {"r1.2", "r1.3"}) == rows[0]
    assert adoptable(rows, KEY, "0.1", {"r1.1", "r1.2", "r1.3"}) is None


@pytest.mark.parametrize("status", CallStatus)
def test_a_row_is_adopted_in_whatever_state_unless_it_is_void(status: CallStatus) -> None:
    found = adoptable([row(status=status)], KEY, "0", set())
    assert (found is None) is (status is CallStatus.CANCELLED)


@pytest.mark.parametrize("changes", [{"args_hash": "hash-2"}, {"tool_name": "pay"}, {"tool_namespace": "mcp"}])
def test_only_an_equal_row_is_adopted_or_joined(changes: dict[str, Any]) -> None:
    assert adoptable([row(**changes)], KEY, "0", set()) is None
    assert joinable([row(**changes)], KEY) is None


@pytest.mark.parametrize("status", CallStatus)
def test_a_call_joins_what_was_or_may_be_done(status: CallStatus) -> None:
    found = joinable([row(status=status)], KEY)
    assert (found is None) is (status in (CallStatus.FAILED, CallStatus.CANCELLED))
    assert joinable([row(1, status=CallStatus.FAILED), row(2), row(3)], KEY) == row(2)
    assert joinable([row(1, status=CallStatus.CANCELLED, same_as="r1.9")], KEY) is not None


# --- the guard -------------------------------------------------------------------------------------------------------


def gate(
    unmet: tuple[CallRow, ...] = (),
    seen: tuple[CallRow, ...] = (),
    *,
    repeat: Repeat | None = None,
    passed: tuple[str, ...] = (),
    cited: str | None = None,
    held: tuple[CallRow, ...] = (),
    elsewhere: tuple[CallRow, ...] = (),
    told: tuple[str, ...] = (),
    model_driven: bool = False,
) -> tuple[Gate, tuple[str, ...]]:
    """Return what the guard says and the ids it names."""
    facts = GuardFacts(
        unmet,
        (*seen, *elsewhere),
        frozenset(passed),
        repeat,
        cited,
        known_here=frozenset(item.tool_call_id for item in seen),
        told=told,
        held_kin=held,
        model_driven=model_driven,
    )
    found, against = guard(facts)
    return found, tuple(item.tool_call_id for item in against)


DOUBT = row(7, status=CallStatus.IN_DOUBT)


@pytest.mark.parametrize("repeat", [None, *Repeat])
@pytest.mark.parametrize("cited", [None, "r1.7"])
def test_a_doubt_holds_back_every_kin(repeat: Repeat | None, cited: str | None) -> None:
    assert gate((DOUBT,), repeat=repeat, cited=cited, passed=("r1.7",)) == (Gate.WAIT, ("r1.7",))
    assert gate((), (DOUBT,), repeat=repeat, cited=cited) == (Gate.WAIT, ("r1.7",))
    assert gate((row(1),), (DOUBT,), repeat=repeat) == (Gate.WAIT, ("r1.7",))


@pytest.mark.parametrize("status", CallStatus)
def test_what_an_earlier_life_did_or_may_have_done_is_asked_about(status: CallStatus) -> None:
    did = status in (CallStatus.SUCCEEDED, CallStatus.ABANDONED)
    waits = status is CallStatus.IN_DOUBT
    expected = Gate.WAIT if waits else Gate.CHALLENGE_UNMET if did else Gate.PASS
    assert gate((row(status=status),))[0] is expected


@pytest.mark.parametrize("status", CallStatus)
def test_what_this_life_did_is_repeated_freely_unless_a_rule_says_otherwise(status: CallStatus) -> None:
    did = status in (CallStatus.SUCCEEDED, CallStatus.ABANDONED)
    doubt = Gate.WAIT if status is CallStatus.IN_DOUBT else Gate.PASS
    seen = (row(status=status),)
    assert gate(seen=seen)[0] is doubt
    assert gate(seen=seen, repeat=Repeat.ALLOW)[0] is doubt
    for repeat in (Repeat.CHALLENGE, Repeat.ASK):
        assert gate(seen=seen, repeat=repeat)[0] is (Gate.CHALLENGE_SEEN if did else doubt)


def test_a_challenge_names_every_kin_at_once_oldest_first() -> None:
    kin_rows = (row(1), row(2, status=CallStatus.FAILED), row(3, status=CallStatus.ABANDONED), row(4))
    assert gate(kin_rows) == (Gate.CHALLENGE_UNMET, ("r1.1", "r1.3", "r1.4"))
    assert gate((), kin_rows, repeat=Repeat.CHALLENGE) == (Gate.CHALLENGE_SEEN, ("r1.1", "r1.3", "r1.4"))


def test_a_verdict_passes_the_pairs_it_names_and_no_other() -> None:
    assert gate((row(1), row(2)), passed=("r1.1", "r1.2")) == (Gate.PASS, ())
    assert gate((row(1), row(2)), passed=("r1.1",)) == (Gate.CHALLENGE_UNMET, ("r1.2",))
    assert gate((), (row(1),), repeat=Repeat.CHALLENGE, passed=("r1.1",)) == (Gate.PASS, ())


def test_repeat_allow_passes_what_an_earlier_life_did() -> None:
    assert gate((row(1),), repeat=Repeat.ALLOW) == (Gate.PASS, ())


def test_a_citation_never_passes_what_this_life_has_not_seen() -> None:
    assert gate((row(1),), (row(2),), repeat=Repeat.CHALLENGE, cited="r1.2") == (Gate.CHALLENGE_UNMET, ("r1.1",))
    assert gate((), (row(2),), repeat=Repeat.CHALLENGE, cited="r1.2") == (Gate.PASS, ())


# --- what a model asks for -------------------------------------------------------------------------------------------


def test_a_model_is_told_of_what_it_has_seen_done_and_a_program_is_not() -> None:
    assert gate((), (row(1),), model_driven=True) == (Gate.CHALLENGE_SEEN, ("r1.1",))
    assert gate((), (row(1),)) == (Gate.PASS, ())
    assert gate((), (row(1),), model_driven=True, repeat=Repeat.ALLOW) == (Gate.PASS, ())


def test_a_model_waits_for_a_running_twin_and_is_then_told_of_it() -> None:
    running, done = row(1, status=CallStatus.RUNNING), row(1)
    assert gate(held=(running,), model_driven=True) == (Gate.WAIT, ("r1.1",))
    assert gate(held=(done,), model_driven=True) == (Gate.CHALLENGE_SEEN, ("r1.1",))
    assert gate(held=(running,)) == (Gate.PASS, ())


def test_what_another_reader_has_seen_is_told_too() -> None:
    assert gate((), (), elsewhere=(row(2),), model_driven=True) == (Gate.CHALLENGE_SEEN, ("r1.2",))


def test_a_citation_that_a_challenge_has_asked_for_is_never_wrong_once() -> None:
    assert gate((), (), cited="r1.2", told=("r1.2",), model_driven=True) == (Gate.PASS, ())


def test_a_model_cites_the_newest_that_it_has_seen_itself() -> None:
    assert gate((), (row(1),), cited="r1.1", model_driven=True) == (Gate.PASS, ())
    assert gate((), (row(1), row(2)), cited="r1.1", model_driven=True) == (Gate.WRONG_CITATION, ("r1.1", "r1.2"))
    assert gate((), (row(1),), held=(row(2),), cited="r1.2", model_driven=True)[0] is Gate.WRONG_CITATION
    assert gate((), (), cited="r1.2", model_driven=True) == (Gate.WRONG_CITATION, ())
    assert gate((), (), elsewhere=(row(2),), cited="r1.2", model_driven=True) == (Gate.WRONG_CITATION, ("r1.2",))
    assert gate((row(3),), (row(1),), cited="r1.1", model_driven=True) == (Gate.CHALLENGE_UNMET, ("r1.3",))


# --- citations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cited", "seen", "already", "problem"),
    [
        ("r1.1", (row(1),), False, None),
        ("r1.1", (row(1, status=CallStatus.ABANDONED),), False, None),
        ("r1.2", (row(1), row(2)), False, None),
        ("r1.1", (row(1), row(2, status=CallStatus.FAILED)), False, None),
        ("r1.1", (row(1), row(2)), False, "the newest is r1.2"),
        ("r1.9", (row(1),), False, "the newest is r1.1"),
        ("r1.1", (), False, "nothing of this kind was done"),
        ("r1.1", (row(1, status=CallStatus.FAILED),), False, "nothing of this kind was done"),
        ("r1.1", (row(1, status=CallStatus.IN_DOUBT),), False, "nothing of this kind was done"),
        ("r1.1", (row(1),), True, "cited before"),
        ("r1.9", (row(1),), True, "the newest is r1.1"),
    ],
)
def test_a_citation_names_the_newest_kin_that_was_done_and_seen(
    cited: str, seen: tuple[CallRow, ...], already: bool, problem: str | None
) -> None:
    known = frozenset(item.tool_call_id for item in seen)
    found = citation_error(GuardFacts((), seen, frozenset(), None, cited, cited_before=already, known_here=known))
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert problem in found
        assert cited in found
