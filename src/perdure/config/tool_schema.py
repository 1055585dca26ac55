"""What a model is told of a tool: its name, what it does, and a JSON Schema of its arguments."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from perdure.core.answers import REPEAT_OF
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
    model = create_model(tool.name, __config__=ConfigDict(extra="forbid" if strict else "allow"), **fields)
    parameters = model.model_json_schema()
    if tool.declaration.side_effect_class not in ("read_only", "local"):
        parameters.setdefault("properties", {})[REPEAT_OF] = dict(_REPEAT_OF)
    return {"name": tool.name, "description": inspect.getdoc(tool.plain) or "", "parameters": parameters}
