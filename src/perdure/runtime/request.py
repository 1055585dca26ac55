"""From a Python call to the exact request the ledger stores: bound, canonical, classified."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.core.codec import Unstorable, encode, sha256_hex
from perdure.core.identity import FILES, args_hash, effect_scope
from perdure.model.errors import UnstorableValue
from perdure.model.policy import Decision
from perdure.model.toolcall import MODEL_NAMESPACE, CallKey, CallRow
from perdure.runtime.attached import digests
from perdure.runtime.context import Reader
from perdure.runtime.frame import Frame
from perdure.runtime.registry import AnyTool
from perdure.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What ``run.call`` may say beside the arguments."""

    repeat_of: str | None = None
    dedupe_key: str | None = None
    on_challenge: str = "wait"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person is asked by the program itself."""

    question: str
    options: tuple[str, ...]


@dataclass(slots=True)
class CallRequest:
    """One call as the program asks for it.

    ``arguments`` are those of its identity, without defaults. What only a new row needs is computed by ``freeze``, so
    that a call which meets its receipt does not pay for it: ``complete`` has the defaults too, ``stored`` is its text.

    Args:
        handle: the exact handle of a call that a model's turn asks for: the turn, and which of its calls (F2).
        reader: the model that asks, and reads what becomes of it; ``None`` is the program.
        refused: why it may not be made, where that is known before any rule is asked.
        journal: what is stored in the transaction of the receipt: the calls that a turn asks for (semantics #17).
        row: the row whose outcome was delivered.
        listed: the rows that a challenge has told the model of.
        adopted: that row was made for another call.
        unlimited: no budget holds it back: it says what was used already.
        not_before: the moment of a timer; its row is not started before it.
        asked: what a person is asked; their answer is its receipt.
        raw_name: how the caller called the tool, where that is not its name.
        files: SHA-256 of the files that the arguments name, by their paths.
    """

    tool: AnyTool
    decision: Decision
    key: CallKey
    arguments: Mapping[str, Any]
    frame: Frame
    options: CallOptions
    stored: str = ""
    scope: str | None = None
    complete: Mapping[str, Any] = field(default_factory=dict[str, Any])
    handle: tuple[str, int] | None = None
    reader: Reader | None = None
    refused: str | None = None
    journal: Callable[[Any], Callable[[SqlStore], None]] | None = None
    row: CallRow | None = None
    listed: list[int] = field(default_factory=list[int])
    adopted: bool = False
    unlimited: bool = False
    not_before: str | None = None
    asked: Asked | None = None
    raw_name: str | None = None
    files: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    def freeze(self, *, copy: bool) -> None:
        """Fix the exact request before anything else can run.

        Args:
            copy: keep the program from changing an argument between now and the dispatch, which a task of the engine
                makes later.

        Raises:
            UnstorableValue: an argument has no JSON form.
        """
        if self.stored:
            return
        try:
            self.complete = {**self.tool.storable_defaults, **self.arguments}
            told = {**self.complete, FILES: self.files} if self.files else self.complete
            self.stored = encode(told, at="arguments")
            self.scope = effect_scope(self.complete, self.decision.scope)
        except Unstorable as problem:
            raise _unstorable(self.tool, problem) from None
        if copy and not all(isinstance(value, _LEAVES) for value in self.complete.values()):
            self.complete = deepcopy(self.complete)


_LEAVES = (str, int, float, bool, bytes, type(None))
PLAIN_OPTIONS = CallOptions()
Digest = Callable[[bytes], str]
"""Hashes the canonical text of a call's identity; the ledger's own is keyed where a short secret could be guessed."""


def build_request(
    tool: AnyTool,
    decision: Decision,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    frame: Frame,
    options: CallOptions = PLAIN_OPTIONS,
    *,
    workspace: Path,
    digest: Digest = sha256_hex,
) -> CallRequest:
    """Bind a call to the tool's signature and give it its identity.

    Args:
        workspace: what the paths of its files are relative to.

    Raises:
        TypeError: the arguments do not fit the signature, as in a plain call.
        UnstorableValue: an argument has no JSON form.
    """
    arguments = _bind(tool, args, kwargs)
    files = digests(tool, arguments, workspace, decision.volatile)
    try:
        hashed = args_hash(arguments, volatile=decision.volatile, files=files, digest=digest)
    except Unstorable as problem:
        raise _unstorable(tool, problem) from None
    key = CallKey(tool.declaration.namespace, tool.name, hashed)
    return CallRequest(tool, decision, key, arguments, frame, options, files=files)


def _unstorable(tool: AnyTool, problem: Unstorable) -> UnstorableValue:
    said = re.sub(r"^arguments?\.", "its argument ", str(problem))
    return UnstorableValue(f"{tool.name} was not called: {said}: pass JSON-like values or a dataclass")


def memo_request(
    tool: AnyTool, decision: Decision, identity: Any, frame: Frame, *, digest: Digest = sha256_hex
) -> CallRequest:
    """Return the request of a memo or a turn, whose identity is its name and canonical arguments.

    Raises:
        UnstorableValue: the identity has no JSON form; the caller should give ``key=``.
    """
    try:
        stored = encode({"identity": identity}, at="argument")
        hashed = args_hash({"identity": identity}, digest=digest)
    except Unstorable as problem:
        _, _, said = str(problem).partition(" ")
        asked = f"run.{'turn' if tool.declaration.namespace == MODEL_NAMESPACE else 'memo'}({tool.name!r}"
        raise UnstorableValue(
            f"{asked}) was not run: one of its arguments {said}: give it a key= that stands for them",
            next_command=f"write {asked}, …, key=TEXT)",
        ) from None
    key = CallKey(tool.declaration.namespace, tool.name, hashed)
    return CallRequest(tool, decision, key, {}, frame, PLAIN_OPTIONS, stored)


def bound_again(tool: AnyTool, complete: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return changed arguments as a call with them would have them: those of its identity, and all with the defaults.

    Raises:
        TypeError: they do not fit the signature.
    """
    args, kwargs = positional_and_keywords(tool.signature, complete)
    arguments = _bind(tool, tuple(args), kwargs)
    return arguments, {**tool.storable_defaults, **arguments}


def _bind(tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    given = _match(tool, args, kwargs) if tool.places else None
    if given is None:
        try:
            given = tool.signature.bind(*args, **kwargs).arguments
        except TypeError as problem:
            raise TypeError(f"{tool.name}(): {problem}") from None
    defaults = tool.defaults
    return {
        name: value
        for name, value in given.items()
        if name not in defaults or not _equals_default(defaults[name], value)
    }


def _equals_default(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)


def _match(tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Match a plain call to a plain signature; ``None`` leaves every other case, and every mistake, to ``bind``."""
    names = tool.places
    if len(args) > len(names):
        return None
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in tool.signature.parameters:
            return None
        given[name] = value
    return given if all(name in given for name in tool.required) else None


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
