"""What one life tells a sink of spans, and that nothing a sink does may reach the run (R063, R123).

Spans are begun and ended here, at the boundaries that the runner, the gateway and the steps pass. A life without a sink
has none of this: ``life.spans`` is ``None``, and each boundary costs one ``if``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perdure.core.usage import read_tokens
from perdure.model.errors import RunSuspended
from perdure.model.toolcall import INNER_NAMESPACES, MODEL_NAMESPACE, CallRow
from perdure.ports.spans import SpanSink

if TYPE_CHECKING:
    from perdure.model.policy import Decision
    from perdure.ports.tool import Probe
    from perdure.runtime.actions import Outcome
    from perdure.runtime.frame import StepScope

_LOG = logging.getLogger("perdure")
T = TypeVar("T")
Told = dict[str, str | bool | int | float]

# The names of OpenTelemetry's conventions for generative AI; they still move, so they stand in one place.
OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
WORKFLOW = "gen_ai.workflow.name"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
MODEL = "gen_ai.response.model"


class OpenSpan:
    """A span that is open; what is put into ``facts`` and ``error`` is told at its end."""

    __slots__ = ("begun", "entered", "error", "facts")

    def __init__(self, begun: Any, entered: Any) -> None:
        self.begun = begun
        self.entered = entered
        self.facts: Told = {}
        self.error: str | None = None


class LifeSpans:
    """The spans of one life.

    Args:
        sink: takes them.
        run_id, name: the run and what it is called.
        attempt: which life it is.
        before: the ``traceparent`` of the life before this one, if it had one.
    """

    def __init__(self, sink: SpanSink, run_id: str, name: str, attempt: int, before: str | None) -> None:
        self._sink = sink
        self._works = True
        self._run_id = run_id
        self._steps: dict[str, Any] = {}
        facts = self._ids({OPERATION: "invoke_workflow", WORKFLOW: name, "perdure.attempt": attempt})
        self._life = self._try(lambda: sink.begin(f"invoke_workflow {name}", facts, None, before))
        self.traceparent = self._try(lambda: sink.place(self._life))

    def _ids(self, facts: Told) -> Told:
        return {CONVERSATION: self._run_id, "perdure.run_id": self._run_id, **facts}

    def _try(self, work: Callable[[], T]) -> T | None:
        """Do what only telemetry wants; where that goes wrong, say so once and do nothing more of it in this life."""
        if not self._works:
            return None
        try:
            return work()
        except Exception as problem:
            self._works = False
            text = "run %s: telemetry is off for the rest of this life: %s: %s"
            _LOG.warning(text, self._run_id, type(problem).__name__, problem)
            return None

    # --- spans ---------------------------------------------------------------------------------------------------

    def _open(self, name: str, facts: Told, parent: Any) -> OpenSpan:
        begun = self._try(lambda: self._sink.begin(name, self._ids(facts), parent, None))
        return OpenSpan(begun, self._try(lambda: self._sink.enter(begun)))

    def _close(self, span: OpenSpan) -> None:
        self._leave(span.entered)
        self._try(lambda: self._sink.end(span.begun, span.facts, span.error))

    def _leave(self, entered: Any) -> None:
        if entered is None:
            return
        try:
            self._sink.leave(entered)  # also of a sink that was dropped: nothing of it may stay set here
        except Exception as problem:
            _LOG.debug("run %s: telemetry could not leave a span: %s", self._run_id, problem)

    @contextmanager
    def _span(self, name: str, facts: Told, parent: Any) -> Generator[OpenSpan, None, None]:
        span = self._open(name, facts, parent)
        try:
            yield span
        except (RunSuspended, GeneratorExit):
            raise  # the life is over or the caller is gone; the work itself has not failed
        except BaseException as error:
            span.error = span.error or kind_of(error)
            raise
        finally:
            self._close(span)

    def _around(self, step_id: str) -> Any:
        return self._steps.get(step_id, self._life)

    # --- the program ---------------------------------------------------------------------------------------------

    def enter(self) -> Any:
        """Let what the program does here belong to the life's span, and return what undoes that."""
        return self._try(lambda: self._sink.enter(self._life))

    def leave(self, entered: Any) -> None:
        """Undo ``enter``."""
        self._leave(entered)

    def step(self, scope: StepScope) -> OpenSpan:
        """Begin the span of a step."""
        facts: Told = {"perdure.step_id": scope.step_id, "perdure.step": scope.name, "perdure.phase": scope.phase}
        span = self._open(f"step {scope.name}", facts, self._life)
        if span.begun is not None:
            self._steps[scope.step_id] = span.begun
        return span

    def step_over(self, scope: StepScope, span: OpenSpan, error: BaseException | None) -> None:
        """End the span of a step."""
        self._steps.pop(scope.step_id, None)
        if error is not None and not isinstance(error, RunSuspended):
            span.error = kind_of(error)
        self._close(span)

    def checkpoint(self, scope: StepScope, checkpoint_id: str, kind: str) -> None:
        """Note a checkpoint in the span of its step."""
        facts = self._ids({"perdure.step_id": scope.step_id, "perdure.checkpoint_id": checkpoint_id})
        facts["perdure.checkpoint_type"] = kind
        self._try(lambda: self._sink.note(self._around(scope.step_id), "perdure.checkpoint", facts))

    # --- calls ---------------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, row: CallRow, decision: Decision) -> Generator[OpenSpan, None, None]:
        """Stand around one attempt of a call, from its dispatch until its outcome is recorded."""
        facts = {**call_facts(row), "perdure.guarantee": str(decision.guarantee)}
        with self._span(call_name(row), facts, self._around(row.step_id)) as span:
            yield span

    def settled(self, span: OpenSpan, row: CallRow, outcome: Outcome) -> None:
        """Note what became of an attempt."""
        span.facts["perdure.status"] = str(row.status)
        span.error = kind_of(outcome.error) if outcome.error is not None else None
        if row.tool_namespace == MODEL_NAMESPACE:
            self._try(lambda: span.facts.update(_usage(outcome.value)))

    def replayed(self, row: CallRow) -> None:
        """Tell of a call that met what is recorded: nothing was done now."""
        facts = {**call_facts(row), "perdure.replayed": True, "perdure.status": str(row.status)}
        begun = self._try(lambda: self._sink.begin(call_name(row), self._ids(facts), self._around(row.step_id), None))
        self._try(lambda: self._sink.end(begun, {}, row.error_code))

    @contextmanager
    def settling(self, row: CallRow) -> Generator[OpenSpan, None, None]:
        """Stand around the settling of a call that an earlier life has started."""
        facts = {**call_facts(row), OPERATION: "settle"}
        with self._span(f"settle {row.tool_name}", facts, self._life) as span:
            yield span

    @contextmanager
    def probing(self, row: CallRow) -> Generator[OpenSpan, None, None]:
        """Stand around one question to a probe."""
        facts = {**call_facts(row), OPERATION: "probe"}
        with self._span(f"probe {row.tool_name}", facts, self._around(row.step_id)) as span:
            yield span

    def answered(self, span: OpenSpan, answer: Probe) -> None:
        """Note what a probe has said."""
        span.facts.update({"perdure.probe.verdict": answer.verdict, "perdure.probe.complete": answer.complete})

    # --- the end -------------------------------------------------------------------------------------------------

    def over(self, facts: Told, error: str | None) -> None:
        """End the life's span."""
        if self._works:
            self._try(lambda: self._sink.end(self._life, facts, error))
        elif self._life is not None:
            with suppress(Exception):  # of a sink that was dropped: it has been said, and this frees what it holds
                self._sink.end(self._life, facts, error)


def call_name(row: CallRow) -> str:
    """Return what the span of a call is called."""
    if row.tool_namespace == MODEL_NAMESPACE:
        return f"chat {row.tool_name}"
    if row.tool_namespace in INNER_NAMESPACES:
        return f"{row.tool_namespace} {row.tool_name}"
    return f"execute_tool {row.tool_name}"


def call_facts(row: CallRow) -> Told:
    """Return what is told of a call; neither its arguments nor what it gave back."""
    facts: Told = {
        "perdure.step_id": row.step_id,
        "perdure.tool_call_id": row.tool_call_id,
        "perdure.tool_namespace": row.tool_namespace,
        "perdure.attempt": row.attempt,
        "perdure.side_effect_class": str(row.side_effect_class),
    }
    if row.tool_namespace == MODEL_NAMESPACE:
        facts[OPERATION] = "chat"
    elif row.tool_namespace not in INNER_NAMESPACES:
        facts.update({OPERATION: "execute_tool", TOOL_NAME: row.tool_name, TOOL_CALL: row.tool_call_id})
    if row.simulated:
        facts["perdure.simulated"] = True
    return facts


def kind_of(error: BaseException) -> str:
    """Return the kind of an error: its words may hold what was said, so they stay in the ledger."""
    return type(error).__qualname__


def _usage(stored: Any) -> Told:
    """Return the tokens that a model's answer says it has used, and its model."""
    found = read_tokens(cast("dict[str, Any]", stored or {}).get("answer"))
    told: Told = {}
    if found.input is not None:
        told[INPUT_TOKENS] = found.input
    if found.output is not None:
        told[OUTPUT_TOKENS] = found.output
    if found.model is not None:
        told[MODEL] = found.model
    return told
