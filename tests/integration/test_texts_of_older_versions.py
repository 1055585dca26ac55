"""A row that an older version stored badly stops nobody: it is read, shown, named by verify, and answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, tool
from perdure.cli.main import main as command_line
from perdure.core.marks import shortened
from perdure.core.redact import Redactor
from tests.integration.engine_support import open_engine

LABELS = ["Password:", "see below"]
SENT: list[Any] = []


class Older(Redactor):
    """Looks for what follows a telling name in the whole text, quotes and commas of JSON included, as it once was."""

    def redact(self, text: str, mark: Callable[[str, str], str], *, by_line: bool = False) -> str:
        """Return a text of which the comma behind a telling text is taken for a secret."""
        comma = mark("named", ",")
        is_stored = shortened(comma) != comma
        return text.replace('Password:","', f'Password:"{comma}"') if is_stored else text


@tool(side_effect_class="external", approval="always")
def pay(to: str, note: list[str]) -> list[str]:
    """Pay."""
    SENT.append((to, note))
    return note


@tool(side_effect_class="external")
def mail(to: str, note: list[str]) -> list[str]:
    """Mail."""
    if to == "lost":
        raise ConnectionResetError("the line went dead")
    return note


def approved(_run: Any) -> Any:
    return pay("ann", LABELS)


def lost(_run: Any) -> Any:
    return mail("lost", LABELS)


def asks(run: Any) -> Any:
    return run.ask("Which?", options=LABELS)


def done(_run: Any) -> Any:
    return mail("bob", [*LABELS, "long" * 5_000])


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A ledger with four runs of an older version, opened by this one."""
    with open_engine(tmp_path) as older:
        older._ledger.vault.redactor = Older()
        for main in (approved, lost, asks, done):
            older.run(main, run_id=main.__name__)
    with open_engine(tmp_path) as found:
        yield found


def test_everybody_who_looks_sees_what_was_stored(engine: Engine, tmp_path: Path) -> None:
    items = dict(engine.inbox())
    assert set(items) == {"approved", "lost", "asks"}
    assert items["approved"].arguments == {"to": "ann", "note": LABELS}
    assert [engine.call(f"{run}.1")["run_id"] for run in ("approved", "lost", "done")] == ["approved", "lost", "done"]
    assert engine.outcome("done").result[:2] == LABELS
    here = ["--state-dir", str(tmp_path / "state")]
    for words in (["inbox"], ["runs", "ls"], ["resume", "--all"], ["calls", "ls"], ["verify"]):
        assert command_line([*here, *words]) == 0, words
    for words in (["runs", "show", "asks"], ["calls", "explain", "lost.1"], ["runs", "export", "done"]):
        assert command_line([*here, *words, "-o", "json"]) == 0, words


def test_each_of_them_can_be_answered(engine: Engine) -> None:
    SENT.clear()
    items = dict(engine.inbox())
    engine.approve(items["approved"].id)
    engine.answer(items["asks"].id, LABELS[0])
    engine.resolve("lost.1", "happened", result=LABELS)
    found = [engine.resume(main.__name__, main=main).result for main in (approved, lost, asks)]
    assert found == [LABELS, LABELS, LABELS[0]]
    assert SENT == [("ann", LABELS)]


def test_verify_names_them_and_still_passes(engine: Engine) -> None:
    found = engine.verify()
    assert found.ok
    said = {problem.subject for problem in found.problems if problem.kind == "text"}
    assert {"approved.1", "lost.1"} <= said
    assert any(subject.startswith("sha256:") for subject in said)
    assert any(not subject.startswith(("sha256:", "approved.", "lost.", "done")) for subject in said)
    assert all("older version" in problem.says for problem in found.problems)
