"""What a model is told of a tool: its name, what it does, and a JSON Schema of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_type_hints

from perdure.core.answers import REPEAT_OF
from perdure.core.codec import encode_or_repr
from perdure.ports.tool import Tool

_REPEAT_OF = {
    "type": "string",
    "description": "Only to do on purpose once more what was done before: the id of the newest receipt of it.",
}


def schema_of(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return ``name``, ``description`` and ``parameters`` of a tool, as a model's provider wants to be given them.

    An effectful tool takes ``repeat_of`` too, by which a model says that it wants a second one (G3).

    Args:
        tool: made by ``@tool`` or ``perdure.wrap``.
    """
    parameters = _model_of(tool).model_json_schema()
    if tool.declaration.side_effect_class not in ("read_only", "local"):
        parameters.setdefault("properties", {})[REPEAT_OF] = dict(_REPEAT_OF)
    return {"name": tool.name, "description": inspect.getdoc(tool.plain) or "", "parameters": parameters}


def checked_arguments(tool: Tool[Any, Any], given: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return the arguments that a model wrote, in the types of the tool's signature, or why they do not fit it.

    A signature of which no schema can be made is taken as it is.
    """
    from pydantic import ValidationError

    try:
        model = _model_of(tool)
    except Exception:
        # Types that pydantic has no schema for: the tool itself will see what it gets.
        return given, None
    try:
        found = model.model_validate(dict(given)).model_dump(exclude_unset=True)
    except ValidationError as wrong:
        return given, "; ".join(_complaint(tool, item["loc"], item["msg"]) for item in wrong.errors())
    return (found, None) if encode_or_repr(found)[1] else (given, None)


def _complaint(tool: Tool[Any, Any], place: tuple[int | str, ...], said: str) -> str:
    name = ".".join(str(part) for part in place)
    if name and place[0] not in tool.signature.parameters:
        return f"{tool.name} has no argument {name!r}; its arguments are: {', '.join(tool.signature.parameters)}"
    return f"{tool.name}: {name}: {said}"


def _model_of(tool: Tool[Any, Any]) -> Any:
    from pydantic import ConfigDict, create_model

    try:
        hints = get_type_hints(tool.plain)
    except Exception:
        # A name that exists for type checkers only: the argument is then any value.
        hints = {}
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in tool.signature.parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    strict = not any(p.kind is p.VAR_KEYWORD for p in tool.signature.parameters.values())
    config = ConfigDict(extra="forbid" if strict else "allow", protected_namespaces=())
    return create_model(tool.name, __config__=config, **fields)
