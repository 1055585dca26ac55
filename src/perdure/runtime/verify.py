"""``verify``: the invariants of a ledger, checked on the user's own file while runs may be going on.

Everything is read in one transaction, one row after the other; nothing is changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.core.audit import Problem, call_problems, run_problems, seal_problem
from perdure.core.json_places import is_json
from perdure.core.marks import MARK_BEGIN
from perdure.core.seals import first_link, link, may_follow
from perdure.store.migrate import fresh_schema
from perdure.store.sql_store import SqlStore

MOST_PROBLEMS = 1_000
"""As many are listed; the rest is counted."""
_BLOCK_BYTES = 1 << 20
_MARK = f"{MARK_BEGIN}redacted:".encode()
_BROKEN = "as it is stored: an older version hid a secret badly; nothing is lost, and with redaction.key it is read"


@dataclass(slots=True)
class Verified:
    """What an audit found.

    Args:
        head: the chain's newest hash; kept elsewhere, it shows later that nothing before it was removed.
    """

    run_id: str | None
    runs: int = 0
    calls: int = 0
    sealed: int = 0
    not_sealed_yet: int = 0
    older_than_the_chain: int = 0
    seals: int = 0
    head: str = ""
    problems: list[Problem] = field(default_factory=list[Problem])
    more_problems: int = 0
    duplicates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    in_doubt: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    missing_artifacts: list[str] = field(default_factory=list[str])
    changed_artifacts: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Whether every invariant holds and no effect is known to have happened twice."""
        return not self.duplicates and not self.more_problems and all(item.is_warning for item in self.problems)

    def add(self, found: Problem) -> None:
        """Keep a problem, or count it."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(found)
        else:
            self.more_problems += 1


def verify(store: SqlStore, run_id: str | None, expect_head: str | None) -> Verified:
    """Check a ledger, or what belongs to one run of it and the chain.

    Args:
        expect_head: a hash that an earlier audit gave; it must still be in the chain.

    Raises:
        LedgerDamaged: a page does not hold what was written to it.
    """
    found = Verified(run_id)
    for problem in (*_file(store), *_schema(store)):
        found.add(problem)
    ledger_id = store.meta("ledger_id") or ""
    _chain(store, found, ledger_id, expect_head)
    for run in store.audit.runs(run_id):
        found.runs += 1
        for problem in run_problems(run):
            found.add(problem)
    _calls(store, found, ledger_id)
    for problem in _bodies(store, run_id):
        found.add(problem)
    _told(store, found)
    _artifacts(store, found)
    return found


def _file(store: SqlStore) -> Iterator[Problem]:
    for says in store.audit.file_problems():
        yield Problem("file", "runtime_state.db", says)


def _schema(store: SqlStore) -> Iterator[Problem]:
    wanted, there = fresh_schema(), store.audit.schema()
    for name in sorted(wanted.keys() | there.keys()):
        if name not in there:
            yield Problem("schema", name, "it is missing: the ledger's own rules are not all in force")
        elif name not in wanted:
            yield Problem("schema", name, "it is not part of the schema", is_warning=True)
        elif wanted[name] != there[name]:
            yield Problem("schema", name, "it is not what the migrations make")


def _chain(store: SqlStore, found: Verified, ledger_id: str, expect_head: str | None) -> None:
    chain = first_link(ledger_id)
    expected = expect_head in (None, chain)
    for number, call, sealed_at, status, row_sha256, chain_sha256, old_status, old_receipt in store.audit.seals():
        found.seals += 1
        if number != found.seals:
            found.add(Problem("chain", f"seal {found.seals}", f"it is missing: number {number} follows"))
            found.seals = number
        chain = link(chain, call, sealed_at, row_sha256)
        if chain != chain_sha256:
            found.add(Problem("chain", f"seal {number}", "it does not follow from the entry before it"))
            chain = chain_sha256
        if old_status is not None and not may_follow(old_status, old_receipt, status):
            found.add(Problem("chain", f"seal {number}", f"{call} was {old_status}, and cannot have become {status}"))
        expected = expected or chain == expect_head
    found.head = chain
    if not expected:
        says = "it is not in the chain: entries that were there are gone, or this is another ledger"
        found.add(Problem("head", str(expect_head), says))


def _calls(store: SqlStore, found: Verified, ledger_id: str) -> None:
    sealed_after = int(store.meta("sealed_after") or 0)
    for call in store.audit.calls(found.run_id):
        found.calls += 1
        for problem in call_problems(call, ledger_id):
            found.add(problem)
        stands, wrong = seal_problem(call, sealed_after)
        if wrong is not None:
            found.add(wrong)
        elif stands == "sealed":
            found.sealed += 1
        elif stands == "not_yet":
            found.not_sealed_yet += 1
        elif stands == "older":
            found.older_than_the_chain += 1


def _bodies(store: SqlStore, run_id: str | None) -> Iterator[Problem]:
    for call, ref in store.audit.missing_payloads(run_id):
        yield Problem("payload", call, f"the body {ref[:19]}… that it names is not there")
    for kind, subject, what in store.audit.broken_texts(run_id):
        yield Problem("text", subject, f"the {what} of this {kind} is no JSON {_BROKEN}", is_warning=True)
    for digest, content in store.audit.payloads():
        if _MARK in content and not is_json(content.decode("utf-8", "replace")):
            yield Problem("text", f"sha256:{digest[:12]}…", f"it is no JSON {_BROKEN}", is_warning=True)
        if hashlib.sha256(content).hexdigest() != digest:
            yield Problem("payload", f"sha256:{digest[:12]}…", "its bytes are not the ones of that hash")
    for tool, ref, one, another in store.audit.shared_refs():
        yield Problem("ref", one, f"the reference {ref} of {tool} belongs to {another} too")
    for number, call, at, before in store.audit.evidence_out_of_order(run_id):
        says = f"evidence {number} is of {at}, and the one before it of {before}: the clock went back"
        yield Problem("evidence_order", call, says, is_warning=True)


def _told(store: SqlStore, found: Verified) -> None:
    for call, tool, ref, receipt, at, second_ref, second in store.audit.duplicates(found.run_id):
        receipts = [{"ref": ref, "receipt": receipt}, {"ref": second_ref, "receipt": second}]
        found.duplicates.append({"tool_call_id": call, "tool_name": tool, "found_at": at, "receipts": receipts})
    for call, tool, started_at, run_status in store.audit.in_doubt(found.run_id):
        entry = {"tool_call_id": call, "tool_name": tool, "started_at": started_at, "run_status": run_status}
        found.in_doubt.append(entry)


def _artifacts(store: SqlStore, found: Verified) -> None:
    for run_id, workspace, path, digest, size_bytes in store.audit.artifacts(found.run_id):
        file = Path(workspace) / path
        if not file.is_file():
            found.missing_artifacts.append(f"{run_id}: {path}")
        elif file.stat().st_size != size_bytes or _sha256(file) != digest:
            found.changed_artifacts.append(f"{run_id}: {path}")


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
