"""From a Python call to the exact request the ledger stores: bound, canonical, classified."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure.core.codec import Unstorable, encode
from perdure.core.identity import args_hash, effect_scope
from perdure.model.errors import UnstorableValue
from perdure.model.policy import Decision
from perdure.model.toolcall import CallKey
from perdure.runtime.frame import Frame
from perdure.runtime.registry import AnyTool


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What ``run.call`` may say beside the arguments."""

    repeat_of: str | None = None
    dedupe_key: str | None = None
    on_challenge: str = "wait"


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One call as the program asks for it; ``complete`` has the defaults that ``arguments`` leaves out."""

    tool: AnyTool
    decision: Decision
    key: CallKey
    scope: str | None
    arguments: Mapping[str, Any]
    complete: Mapping[str, Any]
    stored: str
    frame: Frame
    options: CallOptions


PLAIN_OPTIONS = CallOptions()


def build_request(
    tool: AnyTool,
    decision: Decision,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    frame: Frame,
    options: CallOptions = PLAIN_OPTIONS,
) -> CallRequest:
    """Bind a call to the tool's signature and give it its identity.

    Raises:
        TypeError: the arguments do not fit the signature, as in a plain call.
        UnstorableValue: an argument has no JSON form.
    """
    arguments, complete = _bind(tool.signature, args, kwargs)
    try:
        stored = encode(arguments, at="arguments")
        digest = args_hash(arguments, volatile=decision.volatile)
        scope = effect_scope(complete, decision.scope)
    except Unstorable as problem:
        raise UnstorableValue(f"{tool.name}: {problem}") from None
    key = CallKey(tool.declaration.namespace, tool.name, digest)
    return CallRequest(tool, decision, key, scope, arguments, complete, stored, frame, options)


def memo_request(tool: AnyTool, decision: Decision, identity: Any, frame: Frame) -> CallRequest:
    """Return the request of a memo, whose identity is its name and canonical arguments.

    Raises:
        UnstorableValue: the identity has no JSON form; the caller should give ``key=``.
    """
    try:
        stored = encode({"identity": identity}, at=f"memo {tool.name}")
        digest = args_hash({"identity": identity})
    except Unstorable as problem:
        raise UnstorableValue(f"run.memo({tool.name!r}): {problem}") from None
    key = CallKey(tool.declaration.namespace, tool.name, digest)
    return CallRequest(tool, decision, key, None, {}, {}, stored, frame, PLAIN_OPTIONS)


def _bind(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    bound = signature.bind(*args, **kwargs)
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        default = signature.parameters[name].default
        if default is not inspect.Parameter.empty and type(default) is type(value) and default == value:
            continue
        arguments[name] = value
    bound.apply_defaults()
    return arguments, dict(bound.arguments)


def positional_and_keywords(
    signature: inspect.Signature, arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return stored arguments in the shape the function is called with."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    spread = any(p.kind is p.VAR_POSITIONAL and arguments.get(n) for n, p in signature.parameters.items())
    for name, parameter in signature.parameters.items():
        by_place = parameter.kind is parameter.POSITIONAL_ONLY or (
            spread and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        if by_place and (name in arguments or parameter.default is not parameter.empty):
            args.append(arguments.get(name, parameter.default))
        elif name in arguments:
            _add(parameter, arguments[name], args, kwargs)
    return args, kwargs


def _add(parameter: inspect.Parameter, value: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        args.extend(value)
    elif parameter.kind is parameter.VAR_KEYWORD:
        kwargs.update(value)
    else:
        kwargs[parameter.name] = value
