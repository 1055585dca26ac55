"""What the ledger stores comes back as it was, and arguments are equal exactly when their canonical bytes are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field

from perdure.core.codec import (
    Unstorable,
    canonical,
    decode,
    encode,
    encode_or_repr,
    has_shape,
    sha256_hex,
    shape,
    to_tagged,
)

QUICK = settings(max_examples=150, deadline=None, database=None)

OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
NUMBERS = st.integers() | st.floats() | st.decimals(allow_nan=False)
MOMENTS = st.datetimes(timezones=st.none() | st.just(UTC) | OFFSETS) | st.dates() | st.times() | st.timedeltas()
SCALARS = st.none() | st.booleans() | st.text() | st.binary(max_size=20) | NUMBERS | MOMENTS
KEYS = st.none() | st.booleans() | st.text() | st.integers() | st.binary(max_size=5) | st.dates()
HASHABLE = st.recursive(KEYS, lambda inner: st.frozensets(inner, max_size=3) | st.tuples(inner, inner), max_leaves=6)
VALUES = st.recursive(
    SCALARS | st.sets(HASHABLE, max_size=4) | st.frozensets(HASHABLE, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "$int", "$map", "$tuple", "é", "e\u0301"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def alike(one: Any, other: Any) -> bool:
    """Compare with types: 1, 1.0 and True differ, nan is nan, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, Mapping):
        return alike_in_any_order(list(one.items()), list(other.items()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, (set, frozenset)):
        return alike_in_any_order(list(one), list(other))
    if isinstance(one, datetime | time):
        return one == other and one.utcoffset() == other.utcoffset()
    return bool(one == other)


def alike_in_any_order(ones: list[Any], others: list[Any]) -> bool:
    """Match each of ``ones`` with another of ``others``."""
    left = list(others)
    for one in ones:
        found = next((index for index, other in enumerate(left) if alike(one, other)), None)
        if found is None:
            return False
        del left[found]
    return not left


def spelled(value: Any) -> str:
    """Return what identity sees: the types and contents, no order of keys, and tuples as lists."""
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(spelled, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{spelled(key)}:{spelled(item)}' for key, item in value.items()))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({','.join(sorted(map(spelled, value)))})"
    return f"{type(value).__name__} {value!r}"


@QUICK
@given(VALUES)
def test_a_value_comes_back_as_it_went_in(value: Any) -> None:
    assert alike(decode(encode(value)), value)


@QUICK
@given(VALUES)
def test_a_receipt_of_a_supported_value_is_exact(value: Any) -> None:
    text, exact = encode_or_repr(value)
    assert exact
    assert alike(decode(text), value)


@QUICK
@given(VALUES, VALUES)
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@example([1], (1,))
@example({"x": [(1, 2)]}, {"x": [[1, 2]]})
@example(1, 1.0)
@example(1, True)
@example(0.0, -0.0)
@example({1}, frozenset({1}))
@example(set(), frozenset())
@example({1, 2, 3}, {3, 2, 1})
@example({"$int": "5"}, 5)
@example({"$bytes": "AA=="}, b"\x00")
@example({"$map": []}, {})
@example("é", "e\u0301")
@example(Decimal("1.0"), Decimal("1.00"))
@example(2**53, float(2**53))
@example(b"", "")
@example(None, False)
def test_canonical_bytes_are_equal_exactly_when_the_values_are(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) is (spelled(one) == spelled(other))


@QUICK
@given(st.dictionaries(HASHABLE, VALUES, max_size=5), st.randoms())
@example({1: "a", 2: "b"}, Random(1))
def test_the_order_of_keys_does_not_matter(arguments: dict[Any, Any], chance: Random) -> None:
    names = list(arguments)
    chance.shuffle(names)
    assert canonical({name: arguments[name] for name in names}) == canonical(arguments)


def test_the_order_inside_a_set_does_not_matter() -> None:
    one, other = set[int](), set[int]()
    one.update((0, 8))
    other.update((8, 0))
    assert list(one) != list(other)
    assert canonical(one) == canonical(other)
    assert encode(one) == encode(other)


@QUICK
@given(st.integers(-(10**40), 10**40))
def test_large_integers_keep_every_digit(number: int) -> None:
    assert decode(encode(number)) == number
    assert canonical(number) == canonical({"n": number})[5:-1]
    assert canonical(number) != canonical(number + 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 1.0, 1e300, 5e-324, 2.0**53, 0.1])
def test_every_float_comes_back_as_a_float(value: float) -> None:
    assert repr(decode(encode(value))) == repr(value)
    assert canonical(value) == canonical(value)


def test_what_json_cannot_tell_apart_stays_apart() -> None:
    apart = [1, 1.0, True, "1", Decimal(1), b"1", [1], {1}, frozenset({1}), {"1": 1}, {1: 1}, 0.0, -0.0, math.nan, None]
    assert len({canonical(value) for value in apart}) == len(apart)


def test_keys_are_sorted_as_rfc_8785_says_by_utf_16_units() -> None:
    text = canonical({"\ufb33": 1, "\U0001f600": 2, "a": 3}).decode()
    assert [text.index(key) for key in ("a", "\U0001f600", "\ufb33")] == sorted(
        text.index(key) for key in ("a", "\U0001f600", "\ufb33")
    )


@pytest.mark.parametrize("value", ["\ud800", ["a", "\udfff"], {"k": "\ud800"}, {"\ud800": 1}, {"\ud800": 1, "b": 2}])
def test_a_lone_surrogate_is_refused_with_its_place(value: Any) -> None:
    for write in (encode, canonical):
        with pytest.raises(Unstorable, match="lone surrogate"):
            write(value)
    text, exact = encode_or_repr(value)
    assert not exact
    assert text.encode("utf-8")


@pytest.mark.parametrize("value", [object(), [1, {2: object()}], len, (x for x in "ab"), int, 3 + 4j])
def test_what_has_no_json_form_is_refused_with_its_place(value: Any) -> None:
    for write in (encode, canonical):
        with pytest.raises(Unstorable, match=r"has no JSON form"):
            write(value)


def test_the_error_names_where_the_value_stands() -> None:
    with pytest.raises(Unstorable, match=r"arguments\.report\[1\]\.owner is of type object"):
        encode({"report": [0, {"owner": object(), "n": 1}]}, at="arguments")


def test_what_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    for write in (encode, canonical):
        with pytest.raises(Unstorable, match="holds itself"):
            write(ring)


class Silent:
    """Its repr is broken, as that of a half-built object is."""

    def __repr__(self) -> str:
        raise RuntimeError("not built yet")


@pytest.mark.parametrize("value", [Silent(), 10**5000, [object()], {Silent: 1}], ids=["repr", "digits", "list", "key"])
def test_a_result_that_cannot_be_stored_still_gives_a_receipt(value: Any) -> None:
    text, exact = encode_or_repr(value)
    assert not exact
    assert isinstance(decode(text), str)


class Colour(StrEnum):
    """A word."""

    RED = "red"


class Mixed(str, Enum):  # noqa: UP042 - the older spelling, whose str() is not its value
    """The older spelling of the same."""

    RED = "red"


class Level(IntEnum):
    """A number."""

    HIGH = 3


class Celsius(float):
    """Prints itself with its unit, as the numbers of array libraries do."""

    def __repr__(self) -> str:
        return f"Celsius({float(self)})"


class Day(datetime):
    """Stands for the date-time types of other libraries."""


class Tags(set[str]):
    """A set with a name of its own."""


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Colour.RED, "red"),
        (Mixed.RED, "red"),
        ({Mixed.RED: 1}, {"red": 1}),
        (Level.HIGH, 3),
        (Celsius(1.0), 1.0),
        (Celsius(0.5), 0.5),
        (Celsius("inf"), math.inf),
        (Day(2026, 1, 2), datetime(2026, 1, 2)),
        (Tags({"a"}), {"a"}),
        (bytearray(b"ab"), b"ab"),
    ],
)
def test_a_subclass_comes_back_as_its_plain_type(value: Any, stored: Any) -> None:
    assert alike(decode(encode(value)), stored)
    assert canonical(value) == canonical(stored)


@dataclass(frozen=True)
class Point:
    """A plain record."""

    x: int
    label: str | None = None


@dataclass(frozen=True)
class Path:
    """A record that holds records."""

    points: list[Point]
    ends: tuple[Point, int]
    by_name: dict[str, Point]
    last: Point | None = None


class Order(BaseModel):
    """A pydantic model."""

    item: str
    placed: datetime


class Parcel(BaseModel):
    """A model with another name outside and a field that follows from another."""

    model_config = ConfigDict(extra="forbid")
    weight_grams: int = Field(alias="weightGrams")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def heavy(self) -> bool:
        """Whether two must carry it."""
        return self.weight_grams > 20_000


@dataclass
class Total:
    """A record with a field that it computes itself."""

    parts: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.parts)


class Pair(NamedTuple):
    """A tuple with names."""

    a: int
    b: str


def test_records_get_their_type_back_by_the_annotation() -> None:
    path = Path([Point(1), Point(2, "b")], (Point(3), 4), {"n": Point(5)}, Point(6))
    assert shape(decode(encode(path)), Path) == path
    order = Order(item="a", placed=datetime(2026, 1, 2, tzinfo=UTC))
    assert shape(decode(encode([order])), list[Order]) == [order]
    parcel = Parcel(weightGrams=25_000)
    assert shape(decode(encode(parcel)), Parcel) == parcel
    assert shape(decode(encode(Total([1, 2]))), Total) == Total([1, 2])
    assert shape(decode(encode((Point(1), Point(2)))), tuple[Point, ...]) == (Point(1), Point(2))
    assert shape(decode(encode(Point(1))), Point | Order) == {"x": 1, "label": None}
    assert shape(decode(encode(Point(1))), Point | None) == Point(1)
    assert shape(None, Point | None) is None
    assert decode(encode(Pair(1, "b"))) == (1, "b")


@pytest.mark.parametrize(
    ("annotation", "shaped"),
    [
        (Point, True),
        (list[Point], True),
        (tuple[int, Point], True),
        (dict[str, Order], True),
        (Point | None, True),
        (int, False),
        (list[int], False),
        (str | None, False),
        ("Point", False),
        (Any, False),
    ],
)
def test_only_annotations_with_records_are_shaped(annotation: Any, shaped: bool) -> None:
    assert has_shape(annotation) is shaped


def test_a_record_equals_its_fields_in_identity_only() -> None:
    assert canonical(Point(1)) == canonical({"x": 1, "label": None})
    assert decode(encode(Point(1))) == {"x": 1, "label": None}


@pytest.mark.parametrize("value", [{Point(1)}, {Point(1): "a"}, {(Point(1), 2)}, frozenset({Point(2)})])
def test_what_would_not_decode_is_not_stored_as_exact(value: Any) -> None:
    with pytest.raises(Unstorable):
        encode(value)
    text, exact = encode_or_repr(value)
    assert not exact
    assert isinstance(decode(text), str)


def test_the_stored_text_is_plain_json() -> None:
    text = encode({"when": date(2026, 1, 2), "how_long": timedelta(hours=2), "at": time(1, 2)})
    assert json.loads(text) == {
        "when": {"$date": "2026-01-02"},
        "how_long": {"$timedelta": [0, 7200, 0]},
        "at": {"$time": "01:02:00"},
    }
    assert to_tagged((1,)) == {"$tuple": [1]}


@QUICK
@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_no_two_lists_of_parts_share_a_hash(one: list[bytes], other: list[bytes]) -> None:
    assert (sha256_hex(*one) == sha256_hex(*other)) is (one == other)
