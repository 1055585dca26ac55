"""Perdure: a durable job runner for LLM agents.

The public names are loaded on first use, so that ``import perdure`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.errors import (
        CallAbandoned,
        CallChallenged,
        CallDenied,
        CallError,
        CallFailed,
        ChangeRefused,
        DeadlineExceeded,
        DedupeConflict,
        LeaseHeld,
        NoActiveRun,
        NotFound,
        PerdureError,
        PhaseVetoed,
        PolicyError,
        RunCancelled,
        RunSuspended,
        ScopeLeft,
        SecretUnavailable,
        SimulationMissing,
        SpecError,
        SpecMismatch,
        StoreError,
        ToolConflict,
        UnstorableValue,
        UsageError,
        VerdictRefused,
    )
    from perdure.model.run import Outcome
    from perdure.model.secret import Secret
    from perdure.ports.critic import Annotate, PhaseView, Veto, on_phase_end
    from perdure.ports.tool import CallContext, Probe, ToolFailed, current_call, tool, wrap
    from perdure.quick import arun, open, run
    from perdure.quick.scope import run_scope
    from perdure.quick.trust import doctor
    from perdure.runtime.faces import AsyncRun, Run
    from perdure.runtime.life import Tuning
    from perdure.runtime.tool_schema import schema_of
    from perdure.runtime.turns import AsyncTurn, ToolResult, Turn, TurnCall

_HOME = {
    "perdure.runtime.tool_schema": ("schema_of",),
    "perdure.engine": ("Engine",),
    "perdure.model.errors": (
        "CallAbandoned",
        "CallChallenged",
        "CallDenied",
        "CallError",
        "CallFailed",
        "ChangeRefused",
        "DeadlineExceeded",
        "DedupeConflict",
        "LeaseHeld",
        "NoActiveRun",
        "NotFound",
        "PerdureError",
        "PhaseVetoed",
        "PolicyError",
        "RunCancelled",
        "RunSuspended",
        "ScopeLeft",
        "SecretUnavailable",
        "SimulationMissing",
        "SpecError",
        "SpecMismatch",
        "StoreError",
        "ToolConflict",
        "UnstorableValue",
        "UsageError",
        "VerdictRefused",
    ),
    "perdure.model.run": ("Outcome",),
    "perdure.model.secret": ("Secret",),
    "perdure.ports.critic": ("Annotate", "PhaseView", "Veto", "on_phase_end"),
    "perdure.ports.tool": ("CallContext", "Probe", "ToolFailed", "current_call", "tool", "wrap"),
    "perdure.quick": ("arun", "open", "run"),
    "perdure.quick.scope": ("run_scope",),
    "perdure.quick.trust": ("doctor",),
    "perdure.runtime.faces": ("AsyncRun", "Run"),
    "perdure.runtime.life": ("Tuning",),
    "perdure.runtime.turns": ("AsyncTurn", "ToolResult", "Turn", "TurnCall"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__version__ = "0.1.0"
__all__ = [  # noqa: RUF022 - grouped by what they are for
    "run",
    "arun",
    "run_scope",
    "open",
    "doctor",
    "Engine",
    "Outcome",
    "Run",
    "AsyncRun",
    "Turn",
    "AsyncTurn",
    "TurnCall",
    "ToolResult",
    "Tuning",
    "tool",
    "wrap",
    "schema_of",
    "current_call",
    "CallContext",
    "Probe",
    "Secret",
    "ToolFailed",
    "on_phase_end",
    "PhaseView",
    "Annotate",
    "Veto",
    "PerdureError",
    "CallError",
    "CallFailed",
    "CallDenied",
    "CallChallenged",
    "CallAbandoned",
    "DedupeConflict",
    "NoActiveRun",
    "SpecMismatch",
    "ChangeRefused",
    "SpecError",
    "SimulationMissing",
    "DeadlineExceeded",
    "PolicyError",
    "StoreError",
    "SecretUnavailable",
    "ToolConflict",
    "UnstorableValue",
    "NotFound",
    "LeaseHeld",
    "RunCancelled",
    "PhaseVetoed",
    "VerdictRefused",
    "UsageError",
    "RunSuspended",
    "ScopeLeft",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
