"""Every error a user can meet, in one tree.

PerdureError
├── CallError
│   ├── CallFailed        definite: the call failed, and nothing about it is unknown
│   ├── CallDenied        a policy or a person said no before anything was sent
│   ├── CallChallenged    looks like an effect that was already done (``on_challenge="raise"``)
│   ├── CallAbandoned     a person decided to go on without knowing the outcome
│   └── DedupeConflict    one dedupe_key, two different effect scopes
├── NoActiveRun  SpecMismatch  ChangeRefused  DeadlineExceeded  SimulationMissing  ToolConflict  UnstorableValue
├── NotFound  LeaseHeld  LeaseLost  RunCancelled  PhaseVetoed  VerdictRefused  UsageError
├── SpecError
│   └── PolicyError
└── StoreError
    ├── SecretUnavailable  BodyPruned  ConstraintViolated  SchemaError
    └── StorageFault
        └── LedgerDamaged

``RunSuspended`` stands outside: it is a ``BaseException`` so that no ``except Exception`` can swallow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from perdure.model.problem import Problem


class PerdureError(Exception):
    """Something went wrong in a way that has a stable code, a safe state and a next command.

    Args:
        message: what happened, in one sentence.
        safe: what is certain now; the class's own sentence when left out.
        next_command: what to type next; the class's own line when left out.
    """

    code: ClassVar[str] = "PERDURE-100"
    exit_code: ClassVar[int] = 1
    default_safe: ClassVar[str] = "Everything recorded so far is in the ledger."
    default_next: ClassVar[str] = "perdure runs ls"

    def __init__(self, message: str, *, safe: str | None = None, next_command: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.safe = safe or self.default_safe
        self.next_command = next_command or self.default_next

    def __str__(self) -> str:
        return self.message

    def as_document(self) -> dict[str, Any]:
        """Return the ``perdure.error/v1`` document of this error."""
        return {
            "schema": "perdure.error/v1",
            "code": self.code,
            "message": self.message,
            "safe": self.safe,
            "next": self.next_command,
        }


class CallError(PerdureError):
    """A tool call did not return a value."""

    code = "PERDURE-110"

    def __init__(
        self,
        message: str,
        *,
        tool_call_id: str | None = None,
        tool_name: str | None = None,
        error_type: str | None = None,
        safe: str | None = None,
        next_command: str | None = None,
    ) -> None:
        if next_command is None and tool_call_id is not None:
            next_command = f"perdure calls explain {tool_call_id}"
        super().__init__(message, safe=safe, next_command=next_command)
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name
        self.error_type = error_type


class CallFailed(CallError):
    """The call failed for certain; it is raised again in every life until ``perdure resume`` reopens it."""

    code = "PERDURE-111"
    default_safe = "The failure is recorded; nothing about this call is unknown."


class CallDenied(CallError):
    """A policy rule or a person refused the call before anything was sent."""

    code = "PERDURE-112"
    exit_code = 9
    default_safe = "Nothing was sent."


class CallChallenged(CallError):
    """The call looks like an effect that was already done, and the caller asked to be told by an exception."""

    code = "PERDURE-113"
    default_safe = "Nothing was sent."


class CallAbandoned(CallError):
    """A person decided that the run goes on without knowing what became of this call."""

    code = "PERDURE-114"
    default_safe = "The outcome of this call is unknown, and recorded as such."


class DedupeConflict(CallError):
    """A ``dedupe_key`` names a call whose effect scope is another one."""

    code = "PERDURE-115"
    exit_code = 2
    default_safe = "Nothing was sent."


class NoActiveRun(PerdureError):
    """An effectful tool was called outside a run, where nothing could record it."""

    code = "PERDURE-120"
    exit_code = 2
    default_safe = "Nothing was sent."
    default_next = "perdure run FILE.py:main, or tool.plain(...) for a call without a guard"


class ToolConflict(PerdureError):
    """Two different tools of one run have the same name."""

    code = "PERDURE-121"
    exit_code = 2
    default_safe = "Nothing was started."
    default_next = "give one of them another name: @tool(name=...)"


class UnstorableValue(PerdureError):
    """Arguments cannot be written to the ledger, so the call cannot be made durable."""

    code = "PERDURE-122"
    exit_code = 2
    default_safe = "Nothing was sent."
    default_next = "pass JSON-like values, or give run.memo a key="


class SpecMismatch(PerdureError):
    """The run exists with another specification than the one given now.

    Args:
        differences: the keys that differ, each with what is stored and what is given, as JSON data.
    """

    code = "PERDURE-130"
    exit_code = 2
    default_safe = "The existing run is untouched."

    def __init__(
        self, message: str, *, next_command: str | None = None, differences: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        super().__init__(message, next_command=next_command)
        self.differences = dict(differences or {})

    def as_document(self) -> dict[str, Any]:
        """Return the document, with what differs under ``differences``."""
        listed = [{"key": key, "stored": pair[0], "given": pair[1]} for key, pair in self.differences.items()]
        return {**super().as_document(), **({"differences": listed} if listed else {})}


class ChangeRefused(PerdureError):
    """The job says ``on_change: stop``, and its program or its rules have changed since the run's last life."""

    code = "PERDURE-134"
    exit_code = 2
    default_safe = "The run is untouched."


class SpecError(PerdureError):
    """A job file, an argument or an input is not valid.

    Args:
        problems: each with its place where it stands in a file; plain text where it does not.
    """

    code = "PERDURE-131"
    exit_code = 2
    default_safe = "No run was created and nothing was sent."
    default_next = "correct it and run the same command again"

    def __init__(
        self, problems: Sequence[str | Problem], *, safe: str | None = None, next_command: str | None = None
    ) -> None:
        self.problems = tuple(map(str, problems))
        self.found = tuple(Problem("", 0, 0, each) if isinstance(each, str) else each for each in problems)
        super().__init__("\n".join(self.problems), safe=safe, next_command=next_command)

    def as_document(self) -> dict[str, Any]:
        """Return the document, with each of the problems by itself under ``errors``."""
        return {**super().as_document(), "errors": [each.as_document(self.code) for each in self.found]}


class PolicyError(SpecError):
    """A policy file is not valid; no tool may run under it."""

    code = "PERDURE-201"


class DeadlineExceeded(PerdureError):
    """The run's absolute deadline has passed."""

    code = "PERDURE-132"
    exit_code = 8
    default_safe = "No new call was started after the deadline."
    default_next = "perdure resume @last --grant deadline=+2h"


class SimulationMissing(PerdureError):
    """A tool is not to be entered, and nothing says what its caller gets instead."""

    code = "PERDURE-133"
    exit_code = 2
    default_safe = "Nothing was sent."
    default_next = "give the tool a @simulate function"


class UsageError(PerdureError):
    """The command or function was used in a way that cannot work."""

    code = "PERDURE-140"
    exit_code = 2
    default_safe = "Nothing was started."
    default_next = "perdure --help"


class NotFound(PerdureError):
    """No run, call or question has this id."""

    code = "PERDURE-141"
    exit_code = 3
    default_safe = "Nothing was changed."


class LeaseHeld(PerdureError):
    """Another live process owns the run."""

    code = "PERDURE-150"
    exit_code = 5
    default_safe = "The owner goes on undisturbed."


class LeaseLost(PerdureError):
    """This process no longer owns the run; its late write was refused."""

    code = "PERDURE-151"
    exit_code = 5
    default_safe = "The newer owner's records stand."


class RunCancelled(PerdureError):
    """The run was cancelled: it is not gone on with."""

    code = "PERDURE-152"
    exit_code = 11
    default_safe = "What was done stays recorded; what is in doubt stays in the inbox and can still be settled."
    default_next = "perdure run JOB   # a new run"


class PhaseVetoed(PerdureError):
    """The critic held the run back after a phase, and a person has said that it is not to go on."""

    code = "PERDURE-153"
    default_safe = "Nothing was started after that phase."
    default_next = "perdure runs show @last"


class VerdictRefused(PerdureError):
    """A person's answer cannot be accepted in the state the call is in."""

    code = "PERDURE-160"
    exit_code = 2
    default_safe = "Nothing was changed."
    default_next = "perdure inbox"


class StoreError(PerdureError):
    """The ledger could not be read or written."""

    code = "PERDURE-401"
    exit_code = 4
    default_safe = "No tool is started when its record cannot be written."
    default_next = "perdure db path"


class StorageFault(StoreError):
    """The database itself failed (disk full, I/O error, locked too long); this process stops writing."""

    code = "PERDURE-403"
    default_next = "free the disk or repair the store, then: perdure resume @last"


class LedgerDamaged(StorageFault):
    """The files of the ledger do not hold what was written to them: a page, the log or a payload was changed since."""

    code = "PERDURE-405"
    default_safe = "Nothing was sent on the strength of what cannot be read, and nothing is repaired by guessing."
    default_next = "put the ledger back from a copy: docs/when-the-disk-fails.md"


class SecretUnavailable(StoreError):
    """A secret that a stored text refers to cannot be had: its key or its source is gone."""

    code = "PERDURE-406"
    default_safe = "Nothing was sent in its place: a request goes out as it was asked for, or not at all."
    default_next = "put redaction.key back, or set the secret, then: perdure resume @last"


class BodyPruned(StoreError):
    """A stored body was removed because it was old (retention)."""

    code = "PERDURE-407"
    default_safe = "Nothing was sent. Keys, hashes, outcomes, references and times are kept for ever."
    default_next = "start a new run: perdure run JOB"


class ConstraintViolated(StoreError):
    """A row would break a rule that the database keeps."""

    code = "PERDURE-404"


class SchemaError(StoreError):
    """The ledger's schema is newer than this program, or its migrations were changed."""

    code = "PERDURE-402"
    default_safe = "The file was not touched."


class CancelSeen(Exception):
    """Inside the engine: a start was refused because somebody has asked for the run's end."""


class RunSuspended(BaseException):
    """The life of this run has ended; it goes on in a later one. Let it pass."""


class ScopeLeft(RunSuspended, SystemExit):
    """A ``run_scope`` cannot be entered, or its run waits: a script that lets it pass ends with the run's exit code.

    Args:
        said: where the run stands.
        exit_code: as in the table of exit codes.
    """

    def __init__(self, said: str, exit_code: int) -> None:
        super().__init__(said)
        self.code = exit_code
