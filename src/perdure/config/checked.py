"""What policy files and job files share: pydantic at the edge, with every error brought back to its place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictStr,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from perdure.config.source import Document, Loc
from perdure.core.duration import LONGEST_SECONDS, parse_duration
from perdure.model.problem import Problem, did_you_mean

M = TypeVar("M", bound=BaseModel)


class Edge(BaseModel):
    """Data of a file: unknown keys are errors, and nothing is converted behind one's back."""

    model_config = ConfigDict(extra="forbid", frozen=True)


NonEmpty = Annotated[StrictStr, StringConstraints(min_length=1)]


def _positive(value: object) -> float:
    seconds = parse_duration(value)
    if seconds in (0.0, float("inf")):
        raise ValueError("must be longer than 0 and may not be forever")
    return seconds


def _lag(value: object) -> float:
    seconds = parse_duration(value)
    if seconds == float("inf"):
        raise ValueError("may not be forever")
    return seconds


def _lifetime(value: object) -> float:
    seconds = parse_duration(value)
    if seconds == 0.0:
        raise ValueError("must be longer than 0")
    return seconds


_ZERO = r"0+(\.0+)?(ms|s|m|h|d)"
_NUMBER = r"[0-9]{1,15}(\.[0-9]{1,12})?(ms|s|m|h|d)"


def _written(pattern: str, *, zero: bool = False) -> WithJsonSchema:
    """Return what the published schema says of a duration: a number of seconds, or text."""
    least: dict[str, Any] = {"minimum": 0} if zero else {"exclusiveMinimum": 0}
    number = {"type": "number", "maximum": LONGEST_SECONDS, **least}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": pattern}]})


Duration = Annotated[float, BeforeValidator(_positive), _written(f"^(?!{_ZERO}$){_NUMBER}$")]
DurationOrZero = Annotated[float, BeforeValidator(_lag), _written(f"^{_NUMBER}$", zero=True)]
DurationOrForever = Annotated[float, BeforeValidator(_lifetime), _written(f"^(forever|(?!{_ZERO}$){_NUMBER})$")]


def as_mapping(value: object) -> dict[str, Any] | None:
    """Return a mapping of a document (its keys are text) as such, or None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """Return a list of a document as such, or None."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType]


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return did_you_mean(near[0]) if near else ""


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return the message for a key that nothing reads."""
    listed = sorted(known)
    hint = suggestion(name, listed)
    return f"unknown key {name!r}{hint}" if hint else f"unknown key {name!r}; known are {', '.join(listed)}"


def check(
    model: type[M],
    raw: Mapping[str, Any],
    document: Document,
    loc: Loc,
    *,
    code_of: Callable[[Loc, str], str] = lambda _loc, _kind: "",
) -> tuple[M | None, list[Problem]]:
    """Validate one mapping of a document.

    Args:
        model: what it must look like.
        raw: the mapping.
        document: where it comes from.
        loc: its path there.
        code_of: gives a problem its code, from the path inside ``raw`` and pydantic's kind of error.

    Returns:
        The model, or None; and all problems, in the order of the file.
    """
    empty = [key for key, value in raw.items() if value is None and key in model.model_fields]
    said = "has no value: write one, or leave the key out"
    problems = [document.problem((*loc, key), f"{key} {said}", code_of((key,), "none"), key=True) for key in empty]
    try:
        checked = model.model_validate({key: value for key, value in raw.items() if key not in empty})
    except ValidationError as error:
        problems += [
            _problem(model, raw, document, loc, found, code_of)
            for found in error.errors(include_url=False, include_input=True)
            if not (found["type"] == "missing" and found["loc"] and found["loc"][0] in empty)
        ]
        return None, sorted(problems)
    return (None if problems else checked), problems


def _problem(
    model: type[BaseModel],
    raw: Mapping[str, Any],
    document: Document,
    loc: Loc,
    found: Mapping[str, Any],
    code_of: Callable[[Loc, str], str],
) -> Problem:
    inner: Loc = found["loc"]
    kind: str = found["type"]
    is_key = kind in ("extra_forbidden", "missing")
    code = code_of(inner, kind)
    section = () if any(isinstance(part, int) for part in loc) else loc
    name = ".".join(str(part) for part in (*section, *inner))
    if kind == "extra_forbidden":
        text = unknown_key(str(inner[-1]), _known_keys(model, inner[:-1]))
    elif kind == "missing":
        text = f"{name} is missing"
    else:
        text = f"{name}: {_said(found)}"
    return document.problem((*loc, *inner), text, code, key=is_key and kind != "missing")


_WORDS = (("a valid ", "a "), ("a integer", "an integer"), ("a dictionary", "a mapping"))


def _said(found: Mapping[str, Any]) -> str:
    message = str(found["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    given: object = found["input"]
    if found["type"] in ("enum", "literal_error") and isinstance(given, str):
        wanted = str(found["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        return f"{given!r} is none of {', '.join(wanted)}{suggestion(given, wanted)}"
    if str(found["msg"]).startswith("Input should be "):
        return f"must be {message}, not {shown(given)}"
    return message


def shown(value: object) -> str:
    """Return a value of a file as an error shows it: in short."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_keys(model: type[BaseModel], inner: Loc) -> list[str]:
    """Return the keys of the model that stands at ``inner``."""
    for part in inner:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        nested = next(_models_in(field.annotation), None) if field is not None else None
        if nested is None:
            break
        model = nested
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
