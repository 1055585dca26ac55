"""What may be asked and decided about runs without driving one: the readings and the answers of an engine."""

from __future__ import annotations

from typing import Any

from perdure.model.errors import NotFound, VerdictRefused
from perdure.model.run import Outcome, RunRow, Waiting
from perdure.model.toolcall import CallRow
from perdure.runtime import overdue, report, verdicts
from perdure.runtime.ledger import Ledger
from perdure.runtime.life import Surroundings
from perdure.runtime.verdicts import Verdict, person
from perdure.store.sql_store import SqlStore


class Desk:
    """Looks at runs and takes people's answers; whatever touches a run applies its deadline first (semantics #39)."""

    _ledger: Ledger
    _around: Surroundings
    _flags: str

    def _touch(self) -> None:
        overdue.end_overdue_runs(self._around)

    # --- looking -------------------------------------------------------------------------------------------------

    def find_run(self, text: str) -> str:
        """Return the id of a run given by its id, a unique prefix, or ``@last``.

        Raises:
            NotFound: none or several match.
        """

        def find(store: SqlStore) -> str:
            if text == "@last":
                last = store.runs.last_id()
                if last is None:
                    raise NotFound("there is no run yet", next_command="perdure run JOB")
                return last
            if store.runs.get(text) is not None:
                return text
            found = store.runs.ids_like(text) if text else []
            if len(found) != 1:
                several = f" ({', '.join(found)} …)" if found else ""
                raise NotFound(f"{'several runs begin' if found else 'no run begins'} with {text!r}{several}")
            return found[0]

        return self._ledger.read(find)

    def _row(self, text: str) -> RunRow:
        run_id = self.find_run(text)

        def get(store: SqlStore) -> RunRow:
            row = store.runs.get(run_id)
            if row is None:
                raise NotFound(f"there is no run {run_id!r}")
            return row

        return self._ledger.read(get)

    def outcome(self, run_id: str) -> Outcome:
        """Return where a run stands."""
        self._touch()
        return self._ledger.read(lambda store: report.outcome(store, run_id, flags=self._flags))

    def runs(self, *, status: str | None = None, limit: int = 50) -> list[RunRow]:
        """Return the newest runs first."""
        self._touch()
        return self._ledger.read(lambda store: store.runs.newest(status=status, limit=limit))

    def calls(self, run_id: str | None = None, *, limit: int = 1000, inner: bool = False) -> list[dict[str, Any]]:
        """Return the calls of a run, or of all, as plain dictionaries, oldest first."""
        chosen = None if run_id is None else self.find_run(run_id)
        return self._ledger.read(lambda store: report.calls(store, chosen, limit=limit, inner=inner))

    def call(self, tool_call_id: str) -> dict[str, Any]:
        """Return one call with its request, receipt, evidence and questions.

        Raises:
            NotFound: there is no such call.
        """
        return self._ledger.read(lambda store: report.call(store, tool_call_id, flags=self._flags))

    def inbox(self) -> list[tuple[str, Waiting]]:
        """Return everything that waits for a person, as (run_id, what), oldest first."""

        self._touch()

        def look(store: SqlStore) -> list[tuple[str, Waiting]]:
            return [(item.run_id, report.waiting(store, item, self._flags)) for item in store.questions.open()]

        return self._ledger.read(look)

    def details(self, run_id: str) -> dict[str, Any]:
        """Return a run with its lives, steps and artifacts."""
        chosen = self.find_run(run_id)
        return self._ledger.read(lambda store: report.details(store, chosen))

    # --- deciding ------------------------------------------------------------------------------------------------

    def resolve(
        self,
        tool_call_id: str,
        says: str,
        *,
        result: Any = None,
        ref: str | None = None,
        same_as: str | None = None,
        reason: str = "",
        force: bool = False,
        actor: str | None = None,
    ) -> CallRow:
        """Settle a call in doubt or a challenged one.

        Args:
            says: ``happened did_not_happen abandon same another``.
            result: what the caller gets for ``happened``.
            ref: the provider's own id of the effect.

        Raises:
            VerdictRefused: the answer does not fit the call's state, or the sender may be alive.
        """
        self._touch()
        verdict = Verdict(says, actor or person(), result, ref, same_as, reason, force)
        now, new_id = self._around.clock.now(), "a" + self._around.new_token()
        problem = self._ledger.run(lambda store: verdicts.asked_about_now(store, tool_call_id, verdict, new_id, now))
        if problem is not None:
            raise VerdictRefused(
                problem, next_command=f"perdure calls explain {tool_call_id}   # then answer once more"
            )
        return self._ledger.run(lambda store: verdicts.resolve(store, tool_call_id, verdict, now))

    def approve(self, approval_id: str, *, actor: str | None = None) -> CallRow:
        """Let a call be sent."""
        return self._decide(approval_id, True, actor, "")

    def deny(self, approval_id: str, *, reason: str = "", actor: str | None = None) -> CallRow:
        """Refuse a call; it fails as denied."""
        return self._decide(approval_id, False, actor, reason)

    def answer(self, approval_id: str, text: str, *, actor: str | None = None) -> None:
        """Answer a question or a notice; a notice is closed by any answer.

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

    def _decide(self, approval_id: str, approved: bool, actor: str | None, reason: str) -> CallRow:
        self._touch()
        now = self._around.clock.now()
        return self._ledger.run(
            lambda store: verdicts.decide_approval(
                store, approval_id, approved=approved, actor=actor or person(), reason=reason, now=now
            )
        )
