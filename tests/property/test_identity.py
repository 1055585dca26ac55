"""Identity over arbitrary arguments: equal arguments, equal hash; another scope, another effect; no two calls share a key."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.codec import canonical
from perdure.core.identity import args_hash, effect_scope, idempotency_key
from perdure.model.toolcall import CallKey

QUICK = settings(max_examples=150, deadline=None, database=None)

NAMES = st.text("abcdé", min_size=1, max_size=3)
SMALL = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 0.5, "", "a", "1", b"a"])
VALUES = st.recursive(SMALL, lambda v: st.lists(v, max_size=2) | st.dictionaries(NAMES, v, max_size=2), max_leaves=4)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
TEXT = st.text(max_size=6)
CALLS = st.tuples(
    TEXT, TEXT, st.builds(CallKey, TEXT, TEXT, st.text("0123456789abcdef", max_size=4)), TEXT, st.integers(1, 30)
)


@QUICK
@given(ARGUMENTS, ARGUMENTS)
def test_arguments_have_one_hash_exactly_when_they_are_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (args_hash(one) == args_hash(other)) is (canonical(one) == canonical(other))


@QUICK
@given(ARGUMENTS, st.lists(NAMES, max_size=3), VALUES)
def test_a_volatile_argument_never_changes_the_hash(arguments: dict[str, Any], volatile: list[str], value: Any) -> None:
    changed = {**arguments, **dict.fromkeys(volatile, value)}
    assert args_hash(changed, volatile=volatile) == args_hash(arguments, volatile=volatile)


@QUICK
@given(ARGUMENTS, NAMES, VALUES)
def test_an_argument_that_is_not_volatile_always_does(arguments: dict[str, Any], name: str, value: Any) -> None:
    changed = {**arguments, name: value}
    same = name in arguments and canonical(arguments[name]) == canonical(value)
    assert (args_hash(changed) == args_hash(arguments)) is same


@QUICK
@given(ARGUMENTS, st.lists(NAMES, max_size=3, unique=True), NAMES, VALUES)
def test_a_scope_depends_on_its_arguments_only(
    arguments: dict[str, Any], scope: list[str], name: str, value: Any
) -> None:
    changed = {**arguments, name: value}
    before = effect_scope(arguments, scope)
    assert before == effect_scope(arguments, scope[::-1])
    same = name not in scope or canonical(arguments.get(name)) == canonical(value)
    assert (effect_scope(changed, scope) == before) is same
    assert effect_scope(changed, None) is None


@QUICK
@given(CALLS, CALLS)
def test_two_calls_share_a_key_only_if_they_are_one(one: Any, other: Any) -> None:
    assert (idempotency_key(*one) == idempotency_key(*other)) is (one == other)
