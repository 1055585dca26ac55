"""Values as the ledger keeps them: JSON, with tags for what JSON cannot say.

A tagged value is an object with one key that begins with ``$``. ``encode`` keeps the type (tuple, set, bytes, …) so
that ``decode`` gives back what went in; ``canonical`` is for identity only and treats a tuple as a list.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin, get_type_hints

import rfc8785

from perdure.model.secret import Secret

SAFE_INT = 2**53
_PLAIN = (str, bool, type(None))
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SORTED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


class Unstorable(ValueError):
    """A value has no JSON form; the message names where it stands."""


def to_tagged(value: Any, *, exact: bool = True, at: str = "value") -> Any:
    """Return ``value`` as plain JSON data with tags.

    Args:
        value: anything of the supported types, nested.
        exact: keep tuples apart from lists and integral floats apart from integers in a way that decodes.
        at: where the value stands, for the error.

    Raises:
        Unstorable: some part has no form.
    """
    if isinstance(value, _PLAIN):
        return _text(value, at) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value) if -SAFE_INT < value < SAFE_INT else {"$int": _digits(value, at)}
    if isinstance(value, float):
        return _float(value)
    if _is_mapping(value):
        return _mapping(value, exact, at)
    if _is_list(value):
        return [to_tagged(item, exact=exact, at=f"{at}[{i}]") for i, item in enumerate(value)]
    if _is_tuple(value):
        items = [to_tagged(item, exact=exact, at=f"{at}[{i}]") for i, item in enumerate(value)]
        return {"$tuple": items} if exact else items
    return _rare(value, exact, at)


# Each of these says what `isinstance` cannot: that nothing is known about the parts.
def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _is_set(value: object) -> TypeGuard[AbstractSet[Any]]:
    return isinstance(value, (set, frozenset))


def _text(value: str, at: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Unstorable(f"{at} holds a lone surrogate, which is no text") from None
    # Of a subclass the plain text: str() of an enum's member may be its name.
    return str.__str__(value)


def _digits(value: int, at: str) -> str:
    try:
        return str(int(value))
    except ValueError:
        raise Unstorable(f"{at} has more digits than Python writes") from None


def _float(value: float) -> Any:
    plain = float(value)
    return plain if math.isfinite(plain) and not plain.is_integer() else {"$float": repr(plain)}


def _mapping(value: Mapping[Any, Any], exact: bool, at: str) -> Any:
    plain = all(isinstance(key, str) for key in value)
    if plain and not (len(value) == 1 and next(iter(value)).startswith("$")):
        return {_text(key, at): to_tagged(item, exact=exact, at=f"{at}.{key}") for key, item in value.items()}
    pairs = [
        [_member(key, exact, f"{at} key"), to_tagged(item, exact=exact, at=f"{at}[{key!r}]")]
        for key, item in value.items()
    ]
    return {"$map": pairs if exact else sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}


def _rare(value: Any, exact: bool, at: str) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    for kind, tag in _MOMENTS:
        if isinstance(value, kind):
            return {tag: kind.isoformat(value)}
    if isinstance(value, timedelta):
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}
    if _is_set(value):
        items = [_member(item, exact, at) for item in value]
        tag = "$set" if isinstance(value, set) else "$frozenset"
        return {tag: sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}
    if isinstance(value, Secret):
        return {"$secret": value.name}
    if _is_record(type(value)):
        return to_tagged(_fields_of(value), exact=exact, at=at)
    raise Unstorable(f"{at} is of type {type(value).__name__}, which has no JSON form")


# A datetime is a date too, so that the order matters.
_MOMENTS: tuple[tuple[Any, str], ...] = ((datetime, "$datetime"), (date, "$date"), (time, "$time"))


def _member(value: Any, exact: bool, at: str) -> Any:
    """Return the tagged key of a mapping or member of a set, which must be hashable again when it is decoded."""
    tagged = to_tagged(value, exact=exact, at=at)
    if exact and _is_dict(tagged):
        try:
            hash(from_tagged(tagged))
        except TypeError:
            raise Unstorable(f"{at} holds a {type(value).__name__}, which comes back as a dict") from None
    return tagged


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_validate"))


def _fields_of(record: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    fields: dict[str, Any] = record.model_dump(by_alias=True, round_trip=True)
    return fields


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$int": int,
    "$float": float,
    "$bytes": base64.b64decode,
    "$decimal": Decimal,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$tuple": lambda items: tuple(from_tagged(item) for item in items),
    "$set": lambda items: {from_tagged(item) for item in items},
    "$frozenset": lambda items: frozenset(from_tagged(item) for item in items),
    "$map": lambda pairs: {from_tagged(key): from_tagged(item) for key, item in pairs},
    "$repr": lambda text: text,
    "$secret": Secret,
}


def from_tagged(data: Any) -> Any:
    """Return the value that ``to_tagged`` was given; dataclasses and models come back as plain dicts."""
    if _is_list(data):
        return [from_tagged(item) for item in data]
    if not _is_dict(data):
        return data
    if len(data) == 1:
        key, inner = next(iter(data.items()))
        decoder = _DECODERS.get(key)
        if decoder is not None:
            return decoder(inner)
    return {key: from_tagged(item) for key, item in data.items()}


def encode(value: Any, *, at: str = "value") -> str:
    """Return ``value`` as tagged JSON text; raises ``Unstorable``."""
    try:
        if _is_simple(value):
            text = _COMPACT.encode(value)
            if _is_text(text):
                return text
        return _COMPACT.encode(to_tagged(value, at=at))
    except RecursionError:
        raise Unstorable(f"{at} is nested too deeply, or holds itself") from None


def encode_or_repr(value: Any) -> tuple[str, bool]:
    """Return tagged JSON text of ``value``, or of its ``repr`` with ``False`` where it has no JSON form (design §5)."""
    try:
        return encode(value), True
    except (Unstorable, ValueError, RecursionError):
        return json.dumps({"$repr": _repr(value)}, ensure_ascii=False), False


def unstorable_part(value: Any, *, at: str) -> str:
    """Return which part of a value has no JSON form, and why; for a value of which ``encode_or_repr`` said so."""
    try:
        encode(value, at=at)
    except (Unstorable, ValueError, RecursionError) as problem:
        return str(problem)
    return f"{at} has no JSON form"


def _repr(value: Any) -> str:
    try:
        return repr(value).encode("utf-8", "replace").decode("utf-8")
    except Exception as problem:
        # The effect is done: whatever its result is, there must be a receipt of it.
        return f"<{type(value).__name__} whose repr raises {type(problem).__name__}>"


def decode(text: str) -> Any:
    """Return the value of tagged JSON text."""
    data = json.loads(text)
    return from_tagged(data) if '"$' in text else data


def has_shape(annotation: Any) -> bool:
    """Return whether ``shape`` would do anything for an annotation."""
    return _is_record(annotation) or any(map(has_shape, get_args(annotation)))


def shape(value: Any, annotation: Any) -> Any:
    """Give a decoded dict the dataclass or pydantic model that ``annotation`` names; anything else is left as it is.

    Of a union the only arm with a shape counts; where several have one, the plain data is returned.
    """
    parts = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        shaped = [part for part in parts if has_shape(part)]
        return shape(value, shaped[0]) if len(shaped) == 1 else value
    if _is_dict(value):
        if _is_record(annotation):
            return _record(value, annotation)
        return {key: shape(item, parts[1]) for key, item in value.items()} if len(parts) == 2 else value
    if _is_list(value) and parts:
        return [shape(item, parts[0]) for item in value]
    if _is_tuple(value) and parts:
        each = len(parts) == len(value) and Ellipsis not in parts
        return tuple(map(shape, value, parts if each else parts[:1] * len(value)))
    return value


def _record(value: dict[str, Any], kind: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    hints = get_type_hints(kind)
    given = {field.name for field in dataclasses.fields(kind) if field.init}
    make: Callable[..., Any] = kind
    return make(**{name: shape(item, hints.get(name)) for name, item in value.items() if name in given})


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 form of ``value``: equal bytes mean equal arguments.

    Raises:
        Unstorable: some part has no JSON form.
    """
    try:
        if _is_simple(value):
            text = _SORTED.encode(value)
            if _is_text(text):
                return text.encode("utf-8")
        return rfc8785.dumps(to_tagged(value, exact=False, at="argument"))
    except RecursionError:
        raise Unstorable("an argument is nested too deeply, or holds itself") from None


_kind_of: Callable[[Any], Any] = type


def _is_simple(value: Any) -> bool:
    """Return whether a value is plain JSON of which the standard encoder writes the RFC 8785 form.

    That is so without floats, with safe integers and with ASCII keys, whose order is the same in both (a property test
    compares the two). It spares the common call two walks through its arguments.
    """
    kind = _kind_of(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        number: int = value
        return -SAFE_INT < number < SAFE_INT
    if kind is dict:
        return all(
            type(key) is str and key.isascii() and key[:1] != "$" and _is_simple(item) for key, item in value.items()
        )
    return kind is list and all(map(_is_simple, value))


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sha256_hex(*parts: bytes) -> str:
    """Return the SHA-256 of the parts, each preceded by its length so that no two lists collide."""
    return hashlib.sha256(b"".join([len(part).to_bytes(8, "big") + part for part in parts])).hexdigest()
