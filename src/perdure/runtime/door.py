"""The way in: every engine call of user code comes through here, sync or async, and becomes an operation."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, get_type_hints

from perdure.model.errors import UsageError
from perdure.model.toolcall import MEMO_NAMESPACE
from perdure.ports.tool import Tool, current_run, declare
from perdure.runtime import drive_sync
from perdure.runtime.frame import frame_here
from perdure.runtime.gateway import Gateway
from perdure.runtime.life import Life
from perdure.runtime.registry import AnyTool, is_tool
from perdure.runtime.request import PLAIN_OPTIONS, CallOptions, CallRequest, build_request, memo_request

CHALLENGE_ANSWERS = ("wait", "raise", "return")


class Door:
    """Serves the calls of one life; it is what tools find as the current run."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.gateway = Gateway(life)
        self._blocked_once = False

    # --- what tools use (ports.tool.RunPort) ---------------------------------------------------------------------

    def call_sync(self, called: AnyTool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the guarded call in this thread."""
        if self.life.loop_thread == threading.get_ident() and not self._blocked_once:
            self._blocked_once = True
            self.life.warn_once(
                f"the sync tool {called.name} blocks the event loop; use: await run.call({called.name}, ...)"
            )
        return self.serve_sync(self.request(called, args, kwargs))

    def call_async(self, called: AnyTool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an awaitable of the guarded call's value."""
        return self.refused() or self.serve_async(self.request(called, args, kwargs))

    def refused(self) -> Coroutine[Any, Any, Any] | None:
        """Return what an async agent awaits after its life has ended, or ``None`` while it lives.

        It gives the loop a turn before it raises: an agent that swallows whatever is raised, and asks again, would
        hold up the loop, and nobody could end it.
        """
        return self._refuse() if self.life.closed else None

    async def _refuse(self) -> None:
        import asyncio

        await asyncio.sleep(0)
        self.life.check_open()

    # --- requests ------------------------------------------------------------------------------------------------

    def request(
        self,
        called: AnyTool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: CallOptions = PLAIN_OPTIONS,
    ) -> CallRequest:
        """Return the request of a tool call made here and now."""
        self.life.check_open()
        self.life.registry.add(called)
        life = self.life
        frame, digest = frame_here(life.root), life.vault.digest
        decision = life.decision(called)
        return build_request(called, decision, args, kwargs, frame, options, workspace=life.workspace, digest=digest)

    def find_tool(self, tool_or_name: AnyTool | str | Callable[..., Any]) -> AnyTool:
        """Return a tool by itself or by its registered name.

        Raises:
            UsageError: it is no tool of this run.
        """
        if is_tool(tool_or_name):
            return tool_or_name
        found = self.life.registry.by_spelling(tool_or_name) if isinstance(tool_or_name, str) else None
        if found is None:
            known = ", ".join(self.life.registry.names()) or "none"
            raise UsageError(
                f"{tool_or_name!r} is no tool of this run; its tools are: {known}",
                next_command="decorate the function with @tool, or perdure.wrap(...) it",
            )
        return found

    def memo_request(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: Any
    ) -> CallRequest:
        """Return the request of a memo made here and now."""
        self.life.check_open()
        self.life.vault.refuse_in_name("memo", name)
        fill = self.life.sources.fill
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is an async function
        )

        if is_async:

            async def compute() -> Any:
                return await function(*fill(args), **fill(kwargs))

            body: Callable[..., Any] = compute
        else:

            def compute_here() -> Any:
                return function(*fill(args), **fill(kwargs))

            body = compute_here
        plain = function.plain if isinstance(function, Tool) else function
        body.__annotations__ = {"return": _return_annotation(plain)}
        declared = declare(name, side_effect_class="local", namespace=MEMO_NAMESPACE)
        memo: AnyTool = Tool(body, declared)
        identity = key if key is not None else [list(args), kwargs]
        frame, digest = frame_here(self.life.root), self.life.vault.digest
        return memo_request(memo, self.life.decision(memo), identity, frame, digest=digest)

    # --- serving -------------------------------------------------------------------------------------------------

    def serve_sync(self, request: CallRequest) -> Any:
        """Serve a request in this thread."""
        met, value = self.gateway.meet(request)
        if met:
            return value
        request.freeze(copy=False)
        life = self.life
        operation = life.operations.begin(request.frame)
        life.ledger.crowd += 1
        try:
            return drive_sync.drive(life, self.gateway.serve(request, operation), operation)
        finally:
            life.ledger.crowd -= 1
            life.operations.end(operation)

    async def serve_async(self, request: CallRequest) -> Any:
        """Serve a request in a task that belongs to the engine."""
        from perdure.runtime import caller

        self.life.check_open()
        caller.raise_held_cancel()
        met, value = self.gateway.meet(request)
        if met:
            return value
        request.freeze(copy=True)
        return await caller.serve(self.life, self.gateway, request)

    def enter_loop(self) -> None:
        """Remember which thread runs the agent's event loop."""
        self.life.loop_thread = threading.get_ident()

    def here(self) -> Any:
        """Return a context manager that makes this run the current one."""
        return _Current(self)


class _Current:
    def __init__(self, door: Door) -> None:
        self._door = door

    def __enter__(self) -> Door:
        self._token = current_run.set(self._door)
        spans = self._door.life.spans
        self._entered = spans.enter() if spans is not None else None
        return self._door

    def __exit__(self, *_: object) -> None:
        spans = self._door.life.spans
        if spans is not None:
            spans.leave(self._entered)
        current_run.reset(self._token)


def _return_annotation(function: Callable[..., Any]) -> Any:
    try:
        return get_type_hints(function).get("return", Any)
    except Exception:
        # A callable without annotations, or with names that exist for type checkers only.
        return Any


def parse_options(repeat_of: str | None, dedupe_key: str | None, on_challenge: str) -> CallOptions:
    """Return checked options of ``run.call``.

    Raises:
        UsageError: ``on_challenge`` is none of its three words.
    """
    if on_challenge not in CHALLENGE_ANSWERS:
        raise UsageError(f"on_challenge={on_challenge!r} is none of {', '.join(CHALLENGE_ANSWERS)}")
    return CallOptions(repeat_of, dedupe_key, on_challenge)
