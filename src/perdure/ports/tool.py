"""``@tool``: a function that a run may call, with what it declares about its effect.

A tool is called as it was written. Inside a run the call is the guarded one; outside, a ``read_only`` or ``local``
tool just runs, and any other raises ``NoActiveRun`` because nothing could record it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast, get_type_hints, overload
from weakref import WeakSet

from perdure.core.codec import encode_or_repr, has_shape
from perdure.core.duration import parse_duration
from perdure.model.errors import NoActiveRun, UsageError
from perdure.model.policy import Decision, ToolDeclaration
from perdure.model.toolcall import INNER_NAMESPACES, LOCAL_NAMESPACE, Repeat, ReplayPolicy

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


AUTH = "auth"
AMBIGUOUS_RECIPIENT = "ambiguous_recipient"


class ToolFailed(Exception):
    """Raised by a tool to say that nothing happened.

    Args:
        message: why.
        retry: whether a later attempt may do better.
        kind: ``"auth"`` where the provider did not take the credentials, ``"ambiguous_recipient"`` where it is not
            certain who is meant; a job's ``escalation`` may want a person to be asked about these.
    """

    def __init__(self, message: str = "", *, retry: bool = True, kind: str | None = None) -> None:
        super().__init__(message)
        if kind not in (None, AUTH, AMBIGUOUS_RECIPIENT):
            raise ValueError(f"ToolFailed(kind={kind!r}) is neither {AUTH!r} nor {AMBIGUOUS_RECIPIENT!r}")
        self.retry = retry
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Probe:
    """A provider's answer to the question whether a lost call took effect."""

    verdict: str
    result: Any = None
    ref: str | None = None
    complete: bool = False
    reason: str = ""

    @staticmethod
    def happened(result: Any = None, *, ref: str | None = None) -> Probe:
        """Say that the effect is there; ``ref`` is the provider's own id of it (R6)."""
        return Probe("happened", result=result, ref=ref)

    @staticmethod
    def not_happened(*, complete: bool = False) -> Probe:
        """Say that the effect is not there; it counts only if the listing was ``complete``."""
        return Probe("not_happened", complete=complete)

    @staticmethod
    def unknown(reason: str = "") -> Probe:
        """Say that the provider cannot tell."""
        return Probe("unknown", reason=reason)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool may know about the call it serves.

    ``idempotency_key`` is the same for every attempt of one call; ``record(ref)`` stores the handle of a long remote
    job the moment it exists, so that settling is a lookup.
    """

    idempotency_key: str
    tool_call_id: str
    run_id: str
    step_id: str
    attempt: int
    args: Mapping[str, Any]
    workspace: Path
    handle: str | None
    recorder: Callable[[str], None]

    def record(self, ref: str) -> None:
        """Store ``ref`` as this call's handle, durably, before returning."""
        self.recorder(ref)


class RunPort(Protocol):
    """The run that a call belongs to, as a tool sees it."""

    def call_sync(self, called: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the guarded call in this thread and return its value."""
        ...

    def call_async(self, called: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an awaitable of the guarded call's value."""
        ...


class StandIns(Protocol):
    """What is called in place of tools and of their probes, in a process that only tries a job out."""

    def body(self, called: Tool[Any, Any], decision: Decision) -> Callable[..., Any] | None:
        """Return what is called with a tool's arguments, async if the tool is; ``None``: the tool itself."""
        ...

    def probe(self, called: Tool[Any, Any], decision: Decision) -> ProbeFunction | None:
        """Return what is asked in place of a tool's probe; ``None``: the probe itself."""
        ...


current_run: ContextVar[RunPort | None] = ContextVar("perdure_current_run", default=None)
current_context: ContextVar[CallContext | None] = ContextVar("perdure_current_call", default=None)

ProbeFunction = Callable[[CallContext], Any]
_MADE: dict[tuple[str, str], WeakSet[Tool[Any, Any]]] = {}


def made(namespace: str, name: str) -> Tool[Any, Any] | None:
    """Return the tool of a name that this process has made, wherever; ``None`` where there is none, or several."""
    found = {getattr(item.plain, "__code__", item): item for item in _MADE.get((namespace, name), ())}
    return next(iter(found.values())) if len(found) == 1 else None


class Tool(Generic[P, R]):
    """A function with a declaration; made by ``@tool`` or ``perdure.wrap``.

    Args:
        plain: the function.
        declaration: what it says of its effect.
        listed: later lives may find it by its name among all that this process has made.
    """

    def __init__(self, plain: Callable[P, R], declaration: ToolDeclaration, *, listed: bool = True) -> None:
        functools.update_wrapper(self, plain)
        self.plain = plain
        self.declaration = declaration
        self.is_async = inspect.iscoroutinefunction(plain)
        self.probe_function: ProbeFunction | None = None
        self.simulate_function: Callable[..., Any] | None = None
        full = inspect.signature(plain)
        self.takes_context = "call" in full.parameters and _is_context(full.parameters["call"].annotation)
        kept = [p for name, p in full.parameters.items() if name != "call" or not self.takes_context]
        self.signature = full.replace(parameters=kept)
        self.__signature__ = self.signature
        _check_names(declaration, self.signature)
        if listed and declaration.namespace not in INNER_NAMESPACES:
            _MADE.setdefault((declaration.namespace, declaration.name), WeakSet()).add(self)
        parameters = self.signature.parameters.values()
        usual = all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)
        self.places = tuple(p.name for p in parameters if usual and p.kind is p.POSITIONAL_OR_KEYWORD)
        """Names that may be given by place; empty for an unusual signature, which only ``bind`` can match."""
        self.required = tuple(p.name for p in parameters if p.default is p.empty)
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    @functools.cached_property
    def storable_defaults(self) -> dict[str, Any]:
        """The defaults that belong to a stored request: a deploy may change them, and what was recorded is sent."""
        return {name: value for name, value in self.defaults.items() if encode_or_repr(value)[1]}

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations by which a decoded value gets its type back: dataclasses, models and lists of them."""
        try:
            found = get_type_hints(self.plain)
        except Exception:
            # A name that exists for type checkers only: values then come back as plain data.
            found = {}
        return {name: hint for name, hint in found.items() if has_shape(hint)}

    @property
    def name(self) -> str:
        """The tool's name in the ledger."""
        return self.declaration.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        run = current_run.get()
        if run is not None:
            guarded = run.call_async if self.is_async else run.call_sync
            return cast(R, guarded(cast("Tool[Any, Any]", self), args, kwargs))
        if self.declaration.side_effect_class in ("read_only", "local") and not self.takes_context:
            return self.plain(*args, **kwargs)
        raise NoActiveRun(f"tool {self.name!r} may have an effect and was called outside a run")

    def probe(self, function: F) -> F:
        """Register the question that is asked only about a call of this tool whose outcome was lost."""
        self.probe_function = function
        self.declaration = _replace(self.declaration, has_probe=True)
        return function

    def simulate(self, function: F) -> F:
        """Register what a simulated fork gets instead of the effect."""
        self.simulate_function = function
        self.declaration = _replace(self.declaration, has_simulate=True)
        return function

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def _check_names(declaration: ToolDeclaration, signature: inspect.Signature) -> None:
    parameters = signature.parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for what, names in (
        ("scope", declaration.scope or ()),
        ("volatile", declaration.volatile),
        ("files", declaration.files),
    ):
        for name in names:
            if name not in parameters:
                known = ", ".join(parameters) or "none"
                raise UsageError(f"tool {declaration.name!r}: {what} names {name!r}; its arguments are: {known}")


def _is_context(annotation: Any) -> bool:
    if annotation in (inspect.Parameter.empty, CallContext, Any):
        return True
    return isinstance(annotation, str) and annotation.split(".")[-1] in ("CallContext", "Any")


def _replace(declaration: ToolDeclaration, **changes: Any) -> ToolDeclaration:
    from dataclasses import replace

    return replace(declaration, **changes)


def declare(
    name: str,
    *,
    side_effect_class: str | None = None,
    replay_policy: str | None = None,
    scope: Sequence[str] | None = None,
    volatile: Sequence[str] = (),
    files: Sequence[str] = (),
    key_ttl: float | str | None = None,
    probe_lag: float | str = "10s",
    timeout: float | str | None = None,
    repeat: str | None = None,
    approval: Any = None,
    max_attempts: int | None = None,
    namespace: str = LOCAL_NAMESPACE,
) -> ToolDeclaration:
    """Return a checked declaration; durations become seconds.

    Raises:
        UsageError: a value is not one of the words it may be.
    """
    if replay_policy is not None and replay_policy not in ReplayPolicy.__members__:
        raise UsageError(f"tool {name!r}: replay_policy {replay_policy!r} is none of {', '.join(ReplayPolicy)}")
    if isinstance(scope, str) or isinstance(volatile, str) or isinstance(files, str):
        raise UsageError(f'tool {name!r}: scope, volatile and files are lists of argument names, such as scope=["to"]')
    if repeat is not None and repeat not in tuple(Repeat):
        raise UsageError(f"tool {name!r}: repeat {repeat!r} is none of {', '.join(Repeat)}")
    if max_attempts is not None and max_attempts < 1:
        raise UsageError(f"tool {name!r}: max_attempts must be at least 1")
    return ToolDeclaration(
        name=name,
        namespace=namespace,
        side_effect_class=side_effect_class,
        replay_policy=ReplayPolicy(replay_policy) if replay_policy else None,
        scope=None if scope is None else tuple(scope),
        volatile=tuple(volatile),
        key_ttl_seconds=None if key_ttl is None else _seconds(name, "key_ttl", key_ttl),
        probe_lag_seconds=_seconds(name, "probe_lag", probe_lag),
        timeout_seconds=None if timeout is None else _seconds(name, "timeout", timeout),
        repeat=Repeat(repeat) if repeat else None,
        approval=approval,
        max_attempts=max_attempts,
        has_probe=False,
        has_simulate=False,
        files=tuple(files),
    )


def _seconds(name: str, what: str, value: float | str) -> float:
    try:
        return parse_duration(value)
    except ValueError as problem:
        raise UsageError(f"tool {name!r}: {what}: {problem}") from None


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(*, name: str | None = None, **declared: Any) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[P, R] | None = None, /, *, name: str | None = None, **declared: Any) -> Any:
    """Make a function a tool; nothing declared means external, and a lost outcome asks a person.

    Args:
        name: the name in the ledger; the function's own when left out.
        side_effect_class: ``external memory local read_only``.
        replay_policy: inferred when left out (design.md §2).
        scope: the arguments that say which effect it is, never its wording.
        volatile: arguments that do not belong to a call's identity.
        files: arguments that are paths, or lists of them; what the files hold belongs to a call's identity (R054).
        key_ttl: how long the provider remembers ``call.idempotency_key`` (``"24h"``, ``"forever"``).
        probe_lag: how long after the sender's death a probe's "no" may still be wrong.
        timeout: bound of one attempt; past it the outcome is unknown.
        repeat: ``allow challenge ask``.
        approval: ``never always`` or ``{"when": {...}}``.
        max_attempts: requests in all.
    """

    def decorate(plain: Callable[P, R]) -> Tool[P, R]:
        return Tool(plain, declare(name or plain.__name__, **declared))

    return decorate if function is None else decorate(function)


def wrap(function: Callable[P, R], /, *, name: str | None = None, **declared: Any) -> Tool[P, R]:
    """Guard a function that you cannot edit; takes the arguments of ``@tool``."""
    own_name = str(getattr(function, "__name__", type(function).__name__))
    return Tool(function, declare(name or own_name, **declared))


def current_call() -> CallContext:
    """Return the context of the call that is being served.

    Raises:
        NoActiveRun: no tool is being served here.
    """
    context = current_context.get()
    if context is None:
        raise NoActiveRun("current_call() outside a tool call", next_command="call the tool inside a run")
    return context
