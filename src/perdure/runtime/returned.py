"""What a tool says of the values that it returns, by its annotation."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from perdure.runtime.registry import AnyTool


def returned_type(tool: AnyTool | None) -> str | None:
    """Return the annotation of what a tool returns, as text; ``None`` where that may be nothing, or nobody says."""
    if tool is None or _may_be_none(_annotation(tool)):
        return None
    written = tool.signature.return_annotation
    return written if isinstance(written, str) else inspect.formatannotation(written)


def returns_nothing(tool: AnyTool | None) -> bool:
    """Return whether a tool says that there is nothing to return."""
    return tool is not None and _annotation(tool) is type(None)


def _annotation(tool: AnyTool) -> Any:
    try:
        return get_type_hints(tool.plain).get("return", Any)
    except Exception:
        # A name that exists for type checkers only, or a callable that has no annotations.
        return Any


def _may_be_none(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_may_be_none, get_args(annotation)))
    return annotation in (Any, object, type(None)) or isinstance(annotation, TypeVar)
