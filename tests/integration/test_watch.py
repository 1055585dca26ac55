"""Looking at a run while it works: what is told, in which order, and that a cursor misses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from perdure.model.errors import NotFound, UsageError
from perdure.runtime.cursor import Seen, seen_from
from tests.integration.engine_support import Outside, mailer, open_engine


def faxes(outside: Outside) -> Any:
    """Return an effectful tool whose line is dead until ``outside`` has a line."""

    @tool(name="fax", side_effect_class="external", scope=["to"])
    def fax(to: str) -> str:
        if not outside.sent:
            raise ConnectionResetError("the line went dead")
        return "faxed"

    return fax


def plain(change: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a person would call the same change."""
    names = ("kind", "tool_call_id", "step_id", "attempt", "status", "state", "says", "checkpoint_id", "id")
    return tuple(change.get(name) for name in names)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger with a run of two lives: a doubt, a verdict, and an end."""
    outside = Outside()
    send, fax = mailer(outside, scope=["to"]), faxes(Outside())

    def main(run: Any) -> str:
        with run.step("letters", phase="send"):
            send("ann")
            run.memo("name", str.upper, "bob")
        fax("555")
        return "done"

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        engine.run(lambda run: send("cid"), run_id="other")
        engine.resolve("r1.3", "happened", result="faxed", ref="f-1")
        assert engine.resume("r1", main=main).status == "succeeded"
    return tmp_path


def test_from_the_beginning_everything_is_told_once(folder: Path) -> None:
    with open_engine(folder) as engine:
        told = list(engine.watch("r1", since="start"))
    assert {change["schema"] for change in told} == {"perdure.event/v1"}
    assert {change["run_id"] for change in told} == {"r1"}
    calls = [(change["tool_call_id"], change["status"], change["inner"]) for change in told if change["kind"] == "call"]
    assert calls == [("r1.1", "succeeded", False), ("r1.2", "succeeded", True), ("r1.3", "succeeded", False)]
    lives = [(change["attempt"], change["state"]) for change in told if change["kind"] == "life"]
    assert lives == [(1, "began"), (1, "ended"), (2, "began"), (2, "ended")]
    assert [change["says"] for change in told if change["kind"] == "evidence"] == ["lost", "happened"]
    assert [change["answer"] for change in told if change["kind"] == "question"] == ["happened"]
    assert told[-1]["kind"] == "run"
    assert told[-1]["status"] == "succeeded"
    assert len(set(map(plain, told))) == len(told)


def test_each_cursor_goes_on_behind_its_own_event_and_misses_nothing(folder: Path) -> None:
    with open_engine(folder) as engine:
        told = list(engine.watch("r1", since="start"))
        for number, change in enumerate(told):
            rest = list(engine.watch("r1", since=change["cursor"]))
            assert list(map(plain, rest)) == list(map(plain, told[number + 1 :])), change


def test_a_watcher_that_comes_back_later_is_told_what_it_has_missed(tmp_path: Path) -> None:
    """Cut the watch at every event of the first life; what the next life did comes behind each of these cursors."""
    outside = Outside()
    fax = faxes(outside)

    def main(run: Any) -> str:
        with run.step("try"):
            return str(fax("555"))

    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="r1")
        first = list(engine.watch("r1", since="start"))
        outside.sent.append("a line")
        engine.resolve("r1.1", "did_not_happen", force=True)
        engine.resume("r1", main=main)
        for number, change in enumerate(first):
            later = list(engine.watch("r1", since=change["cursor"]))
            assert later[-1]["status"] == "succeeded"
            calls = [(item["tool_call_id"], item["status"]) for item in later if item["kind"] == "call"]
            assert calls[-1] == ("r1.1", "succeeded"), number
            steps = [(item["name"], item["status"]) for item in later if item["kind"] == "step"]
            assert ("try", "succeeded") in steps
            assert ("main", "succeeded") in steps
            assert [item["answer"] for item in later if item["kind"] == "question"][-1:] == ["did_not_happen"]


def test_what_ends_and_starts_again_between_two_looks_is_told_all_the_same(tmp_path: Path) -> None:
    """A call that failed, was told as settled, and is reopened and done by the next life."""
    broken = [True]

    @tool(name="read", side_effect_class="read_only")
    def read() -> str:
        if broken:
            raise OSError("no such page")
        return "page"

    def main(run: Any) -> str:
        return str(read())

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="r1").status == "failed"
        cursor = list(engine.watch("r1", since="start"))[-1]["cursor"]
        broken.clear()
        assert engine.resume("r1", main=main).status == "succeeded"
        told = [
            (item["tool_call_id"], item["status"])
            for item in engine.watch("r1", since=cursor)
            if item["kind"] == "call"
        ]
    assert told == [("r1.1", "succeeded")]


def test_a_watcher_sees_what_a_run_is_doing_without_disturbing_it(tmp_path: Path) -> None:
    screens: list[Any] = []

    @tool(name="look", side_effect_class="read_only")
    def look() -> str:
        screens.append((watcher.look(), watcher.progress()))
        return "seen"

    def main(run: Any) -> None:
        with run.step("first", phase="read"):
            look()
        run.memo("told", str.upper, "x")
        look()

    with open_engine(tmp_path) as beside, open_engine(tmp_path) as engine:
        engine.run(lambda run: None, run_id="r0")
        watcher = beside.watcher("r0")
        watcher.close()

        def begin(run: Any) -> None:
            nonlocal watcher
            watcher = beside.watcher("r1", since="start")
            main(run)

        engine.run(begin, run_id="r1")
        last = watcher.look()
        assert watcher.is_over("ended")
        watcher.close()
    (first, screen), (then, second) = screens
    told = [(change.facts["tool_call_id"], change.facts["status"]) for change in then if change.kind == "call"]
    assert told[0] == ("r1.1", "succeeded"), "what was told as running is told again when it has ended"
    assert [(change.kind, change.facts.get("status")) for change in first if change.kind in ("step", "call")] == [
        *(("step", "running"), ("step", "running"), ("call", "running")),
    ]
    assert (screen.status, screen.phase, screen.step, screen.calls) == ("running", "read", "first", {"running": 1})
    assert screen.call["tool_call_id"] == "r1.1"
    assert (second.step, second.calls) == ("main", {"running": 1, "succeeded": 1})
    assert second.owner_pid is not None
    assert last[-1].facts["status"] == "succeeded"


def test_budgets_are_shown_against_what_was_used_with_what_was_granted(tmp_path: Path) -> None:
    job = tmp_path / "b.job.yaml"
    (tmp_path / "b.py").write_text(
        "from perdure import tool\n@tool(side_effect_class='local')\ndef f(n): return n\ndef main(run):\n    f(1), f(2)\n"
    )
    job.write_text("name: b\nagent: {python: 'b:main'}\nbudgets: {max_tool_calls: 1, max_wallclock_minutes: 90}\n")
    with open_engine(tmp_path) as engine:
        assert engine.run(str(job), run_id="r1").reason == "budget"
        with engine.watcher("r1") as watcher:
            watcher.look()
            bars = {bar.unit: (bar.used, bar.limit) for bar in watcher.progress().bars}
            engine.grant("r1", {"calls": 2, "minutes": 1.5})
            granted = {bar.unit: (bar.used, bar.limit) for bar in watcher.progress().bars}
        budgets = {item["limit"]: item for item in engine.details("r1")["budgets"]}
    assert (bars["calls"], bars["minutes"][1]) == ((1, 1), 90)
    assert (granted["calls"], granted["minutes"][1]) == ((1, 3), 91.5)
    assert budgets["calls"] == {"limit": "calls", "key": "max_tool_calls", "used": 1, "allowed": 3}
    assert (budgets["minutes"]["allowed"], budgets["minutes"]["used"] < 1) == (91.5, True)


@pytest.mark.parametrize("text", ["", "1.", "2.e30", "1.!!!", "nonsense", "1.W10", "1.eyJhIjoxfQ"])
def test_what_is_no_cursor_is_refused(folder: Path, text: str) -> None:
    with open_engine(folder) as engine, pytest.raises(UsageError, match="is no cursor"):
        next(engine.watch("r1", since=text))


def test_a_cursor_belongs_to_its_run(folder: Path) -> None:
    with open_engine(folder) as engine:
        cursor = next(engine.watch("r1", since="start"))["cursor"]
        with pytest.raises(UsageError, match="one of run 'r1', not of 'other'"):
            next(engine.watch("other", since=cursor))
        with pytest.raises(NotFound):
            next(engine.watch("nobody"))
        with pytest.raises(UsageError, match="did you mean 'waits'"):
            next(engine.watch("r1", until="wait"))


def test_a_cursor_comes_back_as_it_went() -> None:
    seen = Seen("r1", "running::2", 2, False, 1, 3, 7, 4, 5, 6, 7, 8, "2026", {9: "running:1"}, {2: "blocked:1"}, [3])
    assert seen_from(seen.text(), "r1") == seen


def test_looking_writes_nothing_and_cannot(folder: Path) -> None:
    with open_engine(folder) as engine, engine.watcher("r1", since="start") as watcher:
        before = engine._ledger.read(lambda store: list(store.connection.rows("PRAGMA data_version", {})))
        watcher.look()
        with pytest.raises(Exception, match="readonly"):
            watcher._store.connection.write("UPDATE runs SET name = 'x'", {})
        assert engine._ledger.read(lambda store: list(store.connection.rows("PRAGMA data_version", {}))) == before
