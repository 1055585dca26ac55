"""Conditions on arguments fail closed: what is missing or cannot be compared is refused, or asked about."""

from decimal import Decimal

import pytest

from perdure.core.conditions import approval_needed, check_args, condition_problem, parse_approval
from perdure.model.policy import NO_APPROVAL, Approval, ApprovalKind, Decision
from perdure.model.toolcall import ReplayPolicy, SideEffectClass


def decision(*, when: dict[str, object] | None = None, allow: dict[str, tuple[str, ...]] | None = None) -> Decision:
    return Decision(
        SideEffectClass.EXTERNAL,
        ReplayPolicy.ASK,
        "ask",
        approval=NO_APPROVAL if when is None else parse_approval({"when": when}),
        allow_args=allow or {},
    )


@pytest.mark.parametrize(
    ("condition", "value", "asks"),
    [
        (">10000", 10001, True),
        (">10000", 10000, False),
        (">10000", 10000.5, True),
        (">10000", Decimal("10000.01"), True),
        (">10000", 10**30, True),
        (">10000", float("inf"), True),
        (">10000", -float("inf"), False),
        (">10000", float("nan"), True),
        (">10000", "20000", True),
        (">10000", "1", True),
        (">10000", True, True),
        (">10000", None, True),
        (">10000", [5, 20000], True),
        (">10000", [5, 6], False),
        (">10000", [], True),
        (">10000", {"a": 1}, True),
        (">=5", 5, True),
        ("<5", 4, True),
        ("<5", 5, False),
        ("<= 5", 5, True),
        ("==EUR", "EUR", True),
        ("==EUR", "USD", False),
        ("==5", 5, True),
        ("==5", 5.0, True),
        ("==5", "5", True),
        ("==5", 6, False),
        ("==5", [1, [2]], True),
        ("==true", True, True),
        ("==true", False, False),
        ("==null", None, True),
        ("==EUR", 5, False),
        ("!=EUR", "EUR", False),
        ("!=EUR", "USD", True),
        ("!=EUR", {"x": 1}, True),
        ("*@evil.test", "a@evil.test", True),
        ("*@evil.test", "a@example.org", False),
        ("*secret*", "two lines\nand a secret", True),
        ("*secret*", "two lines\nand nothing", False),
        ("*secret*", "a sec\u200bret", True),
        ("*@evil.test", 5, True),
        ("!*@example.org", "a@example.org", False),
        ("!*@example.org", "a@evil.test", True),
        ("!*@example.org", "a@evil.test, b@example.org", True),
    ],
)
def test_when_a_person_is_asked(condition: str, value: object, asks: bool) -> None:
    assert approval_needed(decision(when={"x": condition}), {"x": value}) is asks


def test_a_missing_field_asks() -> None:
    assert approval_needed(decision(when={"cents": "<5"}), {}) is True


def test_any_condition_of_any_field_asks() -> None:
    both = decision(when={"cents": ">100", "to": ["*@a.test", "*@b.test"]})
    assert approval_needed(both, {"cents": 5, "to": "x@b.test"}) is True
    assert approval_needed(both, {"cents": 500, "to": "x@c.test"}) is True
    assert approval_needed(both, {"cents": 5, "to": "x@c.test"}) is False


def test_a_dotted_name_leads_inside_and_a_plain_one_comes_first() -> None:
    inside = decision(when={"payment.cents": ">100"})
    assert approval_needed(inside, {"payment": {"cents": 500}}) is True
    assert approval_needed(inside, {"payment": {"cents": 5}}) is False
    assert approval_needed(inside, {"payment": 5}) is True
    assert approval_needed(inside, {"payment.cents": 5, "payment": {"cents": 500}}) is False


@pytest.mark.parametrize(("kind", "asks"), [("never", False), ("always", True)])
def test_never_and_always_look_at_nothing(kind: str, asks: bool) -> None:
    given = Decision(SideEffectClass.EXTERNAL, ReplayPolicy.ASK, "ask", approval=parse_approval(kind))
    assert approval_needed(given, {}) is asks


@pytest.mark.parametrize(
    "value", [None, "", "sometimes", 1, True, [], {}, {"when": {}}, {"when": "x"}, {"when": {"x": []}}, {"wen": {}}]
)
def test_what_is_no_approval_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"approval is|when"):
        parse_approval(value)


def test_an_approval_stays_itself() -> None:
    own = Approval(ApprovalKind.WHEN, {"x": (">1",)})
    assert parse_approval(own) is own


@pytest.mark.parametrize("condition", ["", "==", ">", "!", ">x", ">nan", ">inf", "<1,000", 5, None, [">1"]])
def test_a_condition_without_meaning_is_refused(condition: object) -> None:
    assert condition_problem(condition) is not None


@pytest.mark.parametrize("condition", [">10000", ">= 5", "<-1.5", "==x", "!=", "*", "a?c", "!*@x", "== "])
def test_a_condition_with_or_without_meaning(condition: str) -> None:
    has_meaning = condition not in ("!=", "== ")
    assert (condition_problem(condition) is None) is has_meaning


ADDRESSES = {"to": ("*@example.org", "boss@partner.test")}


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("a@example.org", True),
        ("boss@partner.test", True),
        ("other@partner.test", False),
        (["a@example.org", "boss@partner.test"], True),
        (("a@example.org",), True),
        (["a@example.org", "x@evil.test"], False),
        ([], False),
        (None, False),
        (5, False),
        ({"a@example.org": 1}, False),
        ([["a@example.org"]], False),
        ("A@EXAMPLE.ORG", False),
        ("x@evil.test,a@example.org", False),
        ("x@evil.test;a@example.org", False),
        ("x@evil.test a@example.org", False),
        ("x@evil.test\na@example.org", False),
        ("Bcc:x%evil.test@example.org", False),
        ('"x@evil.test"@example.org', False),
        ("<x@evil.test>a@example.org", False),
        ("a\u202e@example.org", False),
        ("a\0@example.org", False),
        ("a@example.org\n", False),
    ],
)
def test_which_values_are_allowed(value: object, allowed: bool) -> None:
    refused = check_args(decision(allow=ADDRESSES), {"to": value})
    assert (refused == []) is allowed
    assert all(sentence.startswith("to: ") for sentence in refused)


def test_a_missing_field_is_not_allowed_and_each_field_is_told() -> None:
    given = decision(allow={"to": ("*",), "url": ("https://example.org/*",), "cc": ()})
    assert check_args(given, {"url": "https://example.org@evil.test/", "cc": "x"}) == [
        "to: missing, and only * is allowed",
        "url: 'https://example.org@evil.test/' is not allowed, only https://example.org/*",
        "cc: 'x' is not allowed, only nothing",
    ]


def test_a_bare_star_allows_any_text_even_of_many_lines() -> None:
    assert check_args(decision(allow={"body": ("*",)}), {"body": "two\nlines\u202e"}) == []


def test_no_allow_args_allow_everything() -> None:
    assert check_args(decision(), {"to": object()}) == []
