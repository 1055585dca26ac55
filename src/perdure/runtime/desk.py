"""What may be asked and decided about runs without driving one: the readings and the answers of an engine."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.core.policy import evaluate
from perdure.model.errors import NotFound, RunCancelled, UsageError, VerdictRefused
from perdure.model.policy import Policy, ToolDeclaration
from perdure.model.run import Outcome, RunRow, RunStatus, Waiting
from perdure.model.toolcall import CallRow, CallStatus, SideEffectClass
from perdure.runtime import approvals, cancelling, consent, finding, overdue, policy_diff, report, verdicts
from perdure.runtime.claim import kill_owner
from perdure.runtime.consent import Answer, Known
from perdure.runtime.exports import Exports
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.left_out import LEFT_OUT
from perdure.runtime.registry import Registry, tools_of_module
from perdure.runtime.verdicts import Verdict, person
from perdure.runtime.waiting import waiting
from perdure.runtime.window import Window
from perdure.store.listing import CallFilter
from perdure.store.sql_store import SqlStore


class Desk(Window, ABC):
    """Looks at runs and takes people's answers; whatever touches a run applies its deadline first (semantics #39)."""

    _heartbeat: Heartbeat
    _exports: Exports
    _registry: Registry

    def _touch(self) -> None:
        overdue.end_overdue_runs(self._around)
        cancelling.finish_asked(self._around)
        now = self._around.clock.now()
        if self._ledger.read(lambda store: approvals.late(store, now)):
            self._ledger.run(lambda store: approvals.expire_all(store, now))

    # --- looking -------------------------------------------------------------------------------------------------

    def _refuse_cancelled(self, row: RunRow) -> None:
        """Raise ``RunCancelled`` where a run was cancelled, or is to be as soon as its owner sees it or is gone."""
        self._touch()
        asked = self._ledger.read(lambda store: store.endings.cancel_of(row.run_id))
        if self._row(row.run_id).status is RunStatus.CANCELLED:
            said = f" by {asked.actor} at {asked.requested_at}" if asked is not None else ""
            raise RunCancelled(f"run {row.run_id} was cancelled{said}")

    def _row(self, text: str) -> RunRow:
        run_id = self.find_run(text)

        def get(store: SqlStore) -> RunRow:
            row = store.runs.get(run_id)
            if row is None:
                raise NotFound(f"there is no run {run_id!r}")
            return row

        return self._ledger.read(get)

    def outcome(self, run_id: str, *, shown: bool = False) -> Outcome:
        """Return where a run stands.

        Args:
            shown: it is for people: a result that cannot be read because the key of its secrets is gone is left out.

        Raises:
            SecretUnavailable: a secret is in the result, and its key is gone.
        """
        self._touch()
        return self._ledger.read(lambda store: report.outcome(store, run_id, flags=self._flags, shown=shown))

    def runs(
        self,
        *,
        status: str | None = None,
        limit: int = 50,
        name: str | None = None,
        since: float | str | None = None,
    ) -> list[RunRow]:
        """Return the newest runs first.

        Args:
            status: only runs in this state.
            limit: at most so many.
            name: only runs of this name, which may hold ``*`` and ``?``.
            since: only runs that moved since then: seconds, a duration such as ``24h``, or a time.

        Raises:
            UsageError: ``status`` is no state of a run, or ``since`` is neither a duration nor a time.
        """
        chosen = finding.checked_word(status, tuple(RunStatus), "a run's state")
        moment = finding.moment_since(since, self._around.clock.now())
        self._touch()
        return self._ledger.read(lambda store: store.runs.newest(status=chosen, limit=limit, name=name, since=moment))

    def calls(
        self,
        run_id: str | None = None,
        *,
        limit: int = 1000,
        inner: bool = False,
        status: str | None = None,
        effects: str | None = None,
        tool: str | None = None,
        since: float | str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the calls of a run, or of all, as plain dictionaries, oldest first.

        Args:
            run_id: only of this run.
            limit: at most so many.
            inner: memos and model turns as well.
            status: only calls in this state.
            effects: only calls of this side-effect class.
            tool: only tools of this name, which may hold ``*`` and ``?``.
            since: only calls that moved since then: seconds, a duration such as ``24h``, or a time.

        Raises:
            UsageError: a word is none of its kind.
        """
        wanted = CallFilter(
            status=finding.checked_word(status, tuple(CallStatus), "a call's state"),
            side_effect_class=finding.checked_word(effects, tuple(SideEffectClass), "a side-effect class"),
            tool=tool,
            since=finding.moment_since(since, self._around.clock.now()),
            inner=inner,
            limit=limit,
        )
        chosen = None if run_id is None else self.find_run(run_id)
        return self._ledger.read(lambda store: report.calls(store, chosen, wanted))

    def find_call(self, text: str) -> str:
        """Return the id of a call given by its id, or by ``RUN.n`` with anything that names a run, such as ``@last.3``.

        Raises:
            NotFound: no run or several match. Whether the run has such a call is not looked at.
        """
        run, dot, number = text.rpartition(".")
        known = self._ledger.read(lambda store: store.calls.by_id(text))
        if known is not None or not dot or not number.isdigit():
            return text
        return f"{self.find_run(run)}.{number}"

    def call(self, tool_call_id: str) -> dict[str, Any]:
        """Return one call with its request, receipt, evidence and questions.

        Args:
            tool_call_id: its id, or what ``find_call`` understands.

        Raises:
            NotFound: there is no such call.
        """
        chosen = self.find_call(tool_call_id)
        return self._ledger.read(lambda store: report.call(store, chosen, flags=self._flags))

    def inbox(self, run_id: str | None = None) -> list[tuple[str, Waiting]]:
        """Return what waits for a person, as (run_id, what), oldest first.

        Args:
            run_id: only of this run: its id, a unique prefix, or ``@last``.
        """
        self._touch()
        chosen = None if run_id is None else self.find_run(run_id)

        def look(store: SqlStore) -> list[tuple[str, Waiting]]:
            found = [(item.run_id, waiting(store, item, self._flags)) for item in store.questions.open(chosen)]
            parked = [
                (row.run_id, report.crash_loop(store, row, self._flags))
                for row in store.endings.crash_loops()
                if chosen in (None, row.run_id)
            ]
            return sorted([*found, *parked], key=lambda item: item[1].since)

        return self._ledger.read(look)

    def details(self, run_id: str) -> dict[str, Any]:
        """Return a run with its lives, steps, artifacts and budgets."""
        chosen = self.find_run(run_id)
        return self._ledger.read(lambda store: report.details(store, chosen))

    def export(self, run_id: str) -> list[Path]:
        """Write every file of a run anew from its rows, and return where they are.

        Raises:
            NotFound: there is no such run.
            OSError: its workspace cannot be written.
        """
        return self._exports.write_anew(self.find_run(run_id))

    def completion(self, run_id: str) -> dict[str, Any]:
        """Return the ``perdure.completion/v1`` document of a run that has ended.

        Raises:
            NotFound: there is no such run.
            UsageError: it has not ended.
        """
        self._touch()
        return self._exports.completion(self.find_run(run_id)).as_document()

    def policy_diff(self, old: Policy, new: Policy, run_id: str | None = None) -> dict[str, Any]:
        """Return the ``perdure.policy_diff/v1`` document: what another policy would change.

        Args:
            old, new: from ``perdure.config.policy_file.load_policy``.
            run_id: only calls of this run: its id, a unique prefix, or ``@last``.
        """
        chosen = None if run_id is None else self.find_run(run_id)

        def look(store: SqlStore) -> dict[str, Any]:
            met = {(namespace, name) for _, _, namespace, name in store.listed.tools_of_calls(chosen)}
            calls = list(policy_diff.calls_between(store, old, new, self._declared(), chosen))
            changed = [call for call in calls if call is not None]
            tools = policy_diff.tools_between(old, new, self._declared(), met)
            return {"tools": tools, "calls": changed, "calls_looked_at": len(calls)}

        return self._ledger.read(look)

    def add_tools(self, modules: Iterable[str]) -> None:
        """Import modules and register the tools in them; the working directory is looked in too.

        Raises:
            SpecError: one cannot be imported, or has no tool.
        """
        for module in modules:
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            for item in tools_of_module(module):
                self._registry.add(item)

    def _declared(self) -> dict[tuple[str, str], ToolDeclaration]:
        return {(item.declaration.namespace, item.name): item.declaration for item in self._registry}

    # --- deciding ------------------------------------------------------------------------------------------------

    def resolve(
        self,
        tool_call_id: str,
        says: str,
        *,
        result: Any = LEFT_OUT,
        ref: str | None = None,
        same_as: str | None = None,
        reason: str = "",
        force: bool = False,
        actor: str | None = None,
    ) -> CallRow:
        """Settle a call in doubt or a challenged one.

        Args:
            says: ``happened did_not_happen abandon same another``.
            result: what the caller gets for ``happened``: ``None`` when left out, and then it may be added later.
            ref: the provider's own id of the effect.

        Raises:
            VerdictRefused: the answer does not fit the call's state, or the sender may be alive.
        """
        self._touch()
        tool_call_id = self.find_call(tool_call_id)
        same_as = None if same_as is None else self.find_call(same_as)
        verdict = Verdict(says, actor or person(), result, ref, same_as, reason, force)
        now, new_id = self._around.clock.now(), "a" + self._around.new_token()
        lag = self._lag_seconds(tool_call_id)
        known = self._ledger.run(lambda store: verdicts.settled_by_reply(store, tool_call_id, verdict, now))
        if known is not None:
            raise VerdictRefused(
                known, safe="Nothing is sent again.", next_command=f"perdure calls explain {tool_call_id}"
            )
        problem = self._ledger.run(
            lambda store: verdicts.asked_about_now(store, tool_call_id, verdict, new_id, now, lag)
        )
        if problem is not None:
            raise VerdictRefused(
                problem, next_command=f"perdure calls explain {tool_call_id}   # then answer once more"
            )
        return self._ledger.run(lambda store: verdicts.resolve(store, tool_call_id, verdict, now))

    def _lag_seconds(self, tool_call_id: str) -> float | None:
        """Return the probe lag that the tool of a call declares, where this process knows the tool."""
        row = self._ledger.read(lambda store: store.calls.by_id(tool_call_id))
        found = None if row is None else self._registry.find(row.tool_namespace, row.tool_name)
        return None if found is None else evaluate(Policy(), found.declaration).probe_lag_seconds

    def cancel(self, run_id: str, *, reason: str = "", kill: bool = False, actor: str | None = None) -> Outcome:
        """End a run that has not ended, and return where it stands.

        Nothing more is started; what was sent and not answered stays in the inbox. Where a living process drives the
        run, that process ends it when it sees the wish: at its next start of a call, or within a heartbeat.

        Args:
            run_id: the run, or a unique prefix, or ``@last``.
            reason: kept with the run.
            kill: kill the process that drives it first, as ``resume --kill-owner`` does.

        Raises:
            NotFound: there is no such run.
            LeaseHeld: its process is to be killed, and does not die or is on another host.
        """
        chosen, who = self.find_run(run_id), actor or person()
        if kill:
            self._ledger.read(lambda store: kill_owner(store, chosen))
        row = self._ledger.run(lambda store: cancelling.cancel(self._around, store, chosen, actor=who, reason=reason))
        if row.cancel_requested_at is not None:
            self._heartbeat.tell_of_cancel(chosen)
        self._exports.ended([chosen])
        return self.outcome(chosen)

    def approve(
        self,
        approval_id: str,
        *,
        edit: Mapping[str, Any] | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> CallRow:
        """Let a call be sent.

        Args:
            edit: arguments to be sent instead of those that were asked about; those left out stay. They are checked
                against the tool's signature and the rules of the run. The call stays the one that the program asked
                for: it gets the receipt of what was sent.
            reason: kept with the verdict.

        Raises:
            NotFound, VerdictRefused: the question was answered already, has expired or is superseded, or the edit does
                not fit; then nothing has changed.
        """
        if edit is not None and not edit:
            raise UsageError("an edit names at least one argument")
        return self._decide((approval_id,), Answer(True, actor or person(), reason, edit))[0]

    def approve_all(self, approval_ids: Sequence[str], *, reason: str = "", actor: str | None = None) -> list[CallRow]:
        """Let several calls be sent, all of them or, where one cannot be approved, none."""
        return self._decide(approval_ids, Answer(True, actor or person(), reason))

    def deny(self, approval_id: str, *, reason: str = "", actor: str | None = None) -> CallRow:
        """Refuse a call; it fails as denied, and its caller is told the reason."""
        return self.deny_all((approval_id,), reason=reason, actor=actor)[0]

    def deny_all(self, approval_ids: Sequence[str], *, reason: str = "", actor: str | None = None) -> list[CallRow]:
        """Refuse several calls, all of them or, where one was answered already, none."""
        return self._decide(approval_ids, Answer(False, actor or person(), reason))

    def answer(self, approval_id: str, text: str, *, actor: str | None = None) -> None:
        """Answer a question of the program, or a notice, which is closed by any answer.

        Args:
            approval_id: its id in the inbox.
            text: what is recorded.

        Raises:
            NotFound, VerdictRefused: there is no such question, or it wants another kind of answer.
        """
        now = self._around.clock.now()
        self._ledger.run(
            lambda store: verdicts.answer_question(store, approval_id, text=text, actor=actor or person(), now=now)
        )

    def run_of_question(self, approval_id: str) -> str:
        """Return the id of the run that a question belongs to.

        Raises:
            NotFound: there is no such question.
        """

        def run_of(store: SqlStore) -> str:
            question = store.questions.get(approval_id)
            if question is None:
                raise finding.no_question(store, approval_id)
            return question.run_id

        return self._ledger.read(run_of)

    def _decide(self, approval_ids: Sequence[str], answer: Answer) -> list[CallRow]:
        self._touch()
        now = self._around.clock.now()
        # Found out before the transaction: it may import the program.
        known = self._known_of(approval_ids[0]) if answer.edit is not None else None

        def decide(store: SqlStore) -> list[CallRow]:
            return [consent.decide(store, item, answer, now, known) for item in dict.fromkeys(approval_ids)]

        return self._ledger.run(decide)

    def _known_of(self, approval_id: str) -> Known | None:
        """Return what is known of the tool and the rules of a call that awaits consent, if it is one."""
        question = self._ledger.read(lambda store: store.questions.get(approval_id))
        call_id = question.tool_call_id if question is not None else None
        row = self._ledger.read(lambda store: store.calls.by_id(call_id)) if call_id is not None else None
        return None if row is None else self._known(row)

    @abstractmethod
    def _known(self, row: CallRow) -> Known: ...
