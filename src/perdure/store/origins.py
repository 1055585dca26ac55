"""Rows of where runs come from: forks and what they inherit, provider sessions, and fingerprints."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.model.fork import Checkpoint, ForkEffects, Origin, RunMode
from perdure.model.run import StepStatus
from perdure.model.toolcall import CallKey, CallRow
from perdure.ports.store import Row
from perdure.store.calls import call_of_row
from perdure.store.questions import Question
from perdure.store.statements import Statements


@dataclass(frozen=True, slots=True)
class StepTimes:
    """What a fork must know of a step of its parent."""

    step_id: str
    index: int
    status: StepStatus
    created_at: str
    updated_at: str


class OriginRows:
    """The columns of ``runs`` that say where it comes from, and the rows that a fork inherits."""

    def __init__(self, statements: Statements) -> None:
        self._do = statements

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, run_id: str) -> Origin:
        """Return where a run comes from."""
        row = self._do.one("get_origin", run_id=run_id)
        if row is None:
            return Origin()
        return Origin(RunMode(row[0]), row[1], row[2], ForkEffects(row[3]) if row[3] else None, *row[4:])

    def forks(self, run_id: str) -> list[str]:
        """Return the ids of the runs that were forked from one, oldest first."""
        return [row[0] for row in self._do.rows("list_forks", run_id=run_id)]

    def ancestors(self, run_id: str) -> list[str]:
        """Return the ids of the runs that a run was forked from, the nearest first."""
        return [row[0] for row in self._do.rows("ancestors", run_id=run_id)]

    def checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        """Return one checkpoint."""
        row = self._do.one("get_checkpoint", checkpoint_id=checkpoint_id)
        return _checkpoint(row) if row else None

    def last_checkpoint(self, run_id: str) -> Checkpoint | None:
        """Return the newest checkpoint of a run."""
        row = self._do.one("last_checkpoint", run_id=run_id)
        return _checkpoint(row) if row else None

    def checkpoints(self, run_id: str) -> list[Checkpoint]:
        """Return all checkpoints of a run, oldest first."""
        return [_checkpoint(row) for row in self._do.rows("list_checkpoints", run_id=run_id)]

    def steps(self, run_id: str) -> list[StepTimes]:
        """Return the steps of a run by index, with their times."""
        rows = self._do.rows("list_steps", run_id=run_id)
        return [StepTimes(row[0], row[1], StepStatus(row[2]), row[9], row[10]) for row in rows]

    def calls(self, run_id: str) -> list[CallRow]:
        """Return all rows of a run, oldest first."""
        return [call_of_row(row) for row in self._do.rows("calls_of_run", run_id=run_id)]

    def handles(self, run_id: str) -> list[tuple[str, int, str, int]]:
        """Return the exact handles of a run's turns: (turn, index, call, adopted)."""
        return [(row[0], row[1], row[2], row[3]) for row in self._do.rows("handles_of_run", run_id=run_id)]

    def own(self, run_id: str, origin: str) -> CallRow | None:
        """Return the row by which a fork has inherited a call of an earlier run."""
        row = self._do.one("own_of_inherited", run_id=run_id, origin=origin)
        return call_of_row(row) if row else None

    def effects_elsewhere(self, run_id: str, ancestor: str, key: CallKey, after: int) -> list[CallRow]:
        """Return an ancestor's effects of one tool that a run has not inherited, beyond number ``after``."""
        rows = self._do.rows(
            "effects_elsewhere",
            run_id=run_id,
            ancestor=ancestor,
            tool_name=key.tool_name,
            namespace=key.namespace,
            after=after,
        )
        return [call_of_row(row) for row in rows]

    def later_effects(self, run_id: str, ancestor: str) -> list[CallRow]:
        """Return an ancestor's effects, done or maybe done, that a run has not inherited."""
        return [call_of_row(row) for row in self._do.rows("later_effects", run_id=run_id, ancestor=ancestor)]

    def equal_elsewhere(self, ancestor: str, key: CallKey) -> list[CallRow]:
        """Return an ancestor's own rows that are equal to a call, oldest first."""
        rows = self._do.rows(
            "equal_elsewhere",
            ancestor=ancestor,
            args_hash=key.args_hash,
            tool_name=key.tool_name,
            namespace=key.namespace,
        )
        return [call_of_row(row) for row in rows]

    def set_traceparent(self, run_id: str, fence: int, traceparent: str) -> None:
        """Record where a life stands in its trace, for the life after it."""
        self._do.write_one("set_traceparent", run_id=run_id, fence=fence, traceparent=traceparent)

    def traceparent_before(self, run_id: str, fence: int) -> str | None:
        """Return where the newest traced life before the one that holds ``fence`` stood in its trace."""
        row = self._do.one("traceparent_before", run_id=run_id, fence=fence)
        return row[0] if row else None

    def counts(self, run_id: str) -> tuple[int, int]:
        """Return how many tool calls a run has inherited and how many it has simulated."""
        inherited = self._do.value("count_inherited", run_id=run_id)
        return int(inherited), int(self._do.value("count_simulated", run_id=run_id))

    def fingerprint(self, run_id: str) -> str | None:
        """Return what the last life of a run was made of, as JSON."""
        return None if (row := self._do.one("get_fingerprint", run_id=run_id)) is None else row[0]

    def changes(self, run_id: str) -> list[tuple[int, str]]:
        """Return the lives that began with a change, each with the changes as JSON."""
        return [(row[0], row[1]) for row in self._do.rows("list_changes", run_id=run_id)]

    def questions(self, run_id: str) -> list[Question]:
        """Return what was ever asked about a run itself, not about one of its calls, oldest first."""
        return [Question(*row) for row in self._do.rows("questions_about_run", run_id=run_id)]

    # --- writing -------------------------------------------------------------------------------------------------

    def set(self, run_id: str, origin: Origin) -> None:
        """Write where a run comes from, before its first life."""
        self._do.write_one(
            "set_origin",
            run_id=run_id,
            run_mode=origin.run_mode,
            parent_run_id=origin.parent_run_id,
            forked_from=origin.forked_from,
            fork_effects=origin.fork_effects,
            last_job_prompt=origin.last_job_prompt,
            provider_session_forked_from=origin.provider_session_forked_from,
        )

    def set_session(self, run_id: str, fence: int, provider_session_id: str | None, now: str) -> None:
        """Store the provider's id of the conversation, or that there is none any more."""
        self._do.write_one(
            "set_provider_session", run_id=run_id, fence=fence, provider_session_id=provider_session_id, now=now
        )

    def set_prompt(self, run_id: str, fence: int, text: str, now: str) -> None:
        """Store what the agent was last told to do."""
        self._do.write_one("set_last_job_prompt", run_id=run_id, fence=fence, last_job_prompt=text, now=now)

    def set_fingerprint(self, run_id: str, fence: int, fingerprint: str) -> None:
        """Store what this life is made of."""
        self._do.write_one("set_fingerprint", run_id=run_id, fence=fence, fingerprint=fingerprint)

    def set_changes(self, run_id: str, fence: int, changes: str) -> None:
        """Store how a life differs from the one before it."""
        self._do.write_one("set_changes", run_id=run_id, fence=fence, changes=changes)

    def inherit_step(self, source: str, *, step_id: str, run_id: str, status: str, now: str) -> None:
        """Give a fork a step of its parent."""
        self._do.write_one("inherit_step", source=source, step_id=step_id, run_id=run_id, status=status, now=now)

    def inherit_call(
        self,
        row: CallRow,
        *,
        tool_call_id: str,
        run_id: str,
        step_id: str,
        idempotency_key: str,
        parent_call_id: str | None,
        repeat_of: str | None,
        same_as: str | None,
        response: str | None,
        now: str,
    ) -> None:
        """Give a fork the receipt of its parent's call; ``response`` replaces a value that names calls."""
        self._do.write_one(
            "inherit_call",
            source=row.call_no,
            tool_call_id=tool_call_id,
            run_id=run_id,
            step_id=step_id,
            idempotency_key=idempotency_key,
            parent_call_id=parent_call_id,
            repeat_of=repeat_of,
            same_as=same_as,
            response=response,
            now=now,
        )

    def inherit_handle(self, parent_call_id: str, call_index: int, tool_call_id: str, adopted: int) -> None:
        """Give a fork the exact handle of a call that a model's turn has asked for."""
        self._do.write_one(
            "inherit_handle",
            parent_call_id=parent_call_id,
            call_index=call_index,
            tool_call_id=tool_call_id,
            adopted=adopted,
        )


def _checkpoint(row: Row) -> Checkpoint:
    return Checkpoint(row[0], row[1], row[2], row[3], row[4], row[5], row[6] or "{}", row[7])
