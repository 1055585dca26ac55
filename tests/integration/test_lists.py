"""Lists of runs and calls: ids, filters, columns; and what a person types for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Engine, tool
from perdure.cli.main import main as perdure_command
from perdure.model.errors import NotFound, UsageError
from tests.integration.engine_support import Outside, mailer, open_engine


@tool(side_effect_class="read_only")
def fetch(url: str) -> str:
    return f"page of {url}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger with two runs: one that has ended, one with a call in doubt."""
    send = mailer(Outside(), scope=["to"])

    @tool(name="fax", side_effect_class="external", scope=["to"])
    def fax(to: str) -> str:
        raise ConnectionResetError("the line went dead")

    def letters(run: Any) -> str:
        send(run.memo("who", str.lower, "ANN"))
        send("bob")
        return fetch("a")

    def faxes(run: Any) -> None:
        send("cid")
        fax("555")

    with open_engine(tmp_path) as engine:
        assert engine.run(letters, run_id="alpha-1").status == "succeeded"
        assert engine.run(faxes, run_id="beta.2").reason == "in_doubt"
    return tmp_path


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    """The ledger, opened by somebody who looks."""
    with open_engine(folder) as opened:
        yield opened


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        *(("alpha-1.2", "alpha-1.2"), ("al.2", "alpha-1.2"), ("@last.2", "beta.2.2"), ("beta.2.1", "beta.2.1")),
        *(("be.1", "beta.2.1"), ("beta.2.2", "beta.2.2")),
    ],
)
def test_a_call_is_named_by_its_id_or_by_whatever_names_its_run(engine: Engine, typed: str, found: str) -> None:
    assert engine.call(typed)["tool_call_id"] == found


@pytest.mark.parametrize("typed", ["@last.9", "gamma.1", ".1", "alpha-1", "", "alpha-1.x", "@last", "@last."])
def test_a_call_that_is_not_there_is_said_not_to_be(engine: Engine, typed: str) -> None:
    with pytest.raises(NotFound):
        engine.call(typed)


def test_a_verdict_takes_the_short_name_too(engine: Engine) -> None:
    assert engine.resolve("@last.2", "abandon").status == "abandoned"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["alpha-1.2", "alpha-1.3", "alpha-1.4", "beta.2.1", "beta.2.2"]),
        ({"inner": True, "run_id": "alpha"}, ["alpha-1.1", "alpha-1.2", "alpha-1.3", "alpha-1.4"]),
        ({"status": "in_doubt"}, ["beta.2.2"]),
        ({"effects": "external", "run_id": "alpha-1"}, ["alpha-1.2", "alpha-1.3"]),
        ({"tool": "f*"}, ["alpha-1.4", "beta.2.2"]),
        ({"tool": "send", "run_id": "@last"}, ["beta.2.1"]),
        ({"since": "24h", "limit": 1}, ["alpha-1.2"]),
        ({"since": 0.0}, []),
        ({"since": "2999-01-01"}, []),
        ({"since": "2001-01-01T00:00:00+02:00", "status": "in_doubt"}, ["beta.2.2"]),
        ({"since": "forever", "tool": "fax"}, ["beta.2.2"]),
    ],
)
def test_calls_are_filtered(engine: Engine, wanted: dict[str, Any], found: list[str]) -> None:
    assert [call["tool_call_id"] for call in engine.calls(**wanted)] == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["beta.2", "alpha-1"]),
        ({"status": "waiting"}, ["beta.2"]),
        ({"name": "*test_list?"}, ["beta.2", "alpha-1"]),
        ({"name": "letters"}, []),
        ({"since": "1h", "limit": 1}, ["beta.2"]),
        ({"since": "2999-01-01"}, []),
    ],
)
def test_runs_are_filtered(engine: Engine, wanted: dict[str, Any], found: list[str]) -> None:
    assert [row.run_id for row in engine.runs(**wanted)] == found


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda engine: engine.runs(status="runing"), "did you mean 'running'"),
        (lambda engine: engine.calls(status="lost"), "there are: prepared"),
        (lambda engine: engine.calls(effects="extern"), "did you mean 'external'"),
        (lambda engine: engine.calls(since="yesterday"), "neither a duration"),
        (lambda engine: engine.runs(since=-1), "neither a duration"),
    ],
)
def test_a_word_that_is_none_is_refused_with_the_nearest(engine: Engine, ask: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ask(engine)


def typed(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command in this process and return its code and what it printed."""
    code = perdure_command([*words, "--state-dir", str(folder / "state")])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_columns_of_a_table_can_be_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(folder, capsys, "calls", "ls", "@last", "--columns", "call,STATUS, key", "--tool", "fax")
    header, row = out.splitlines()
    assert (code, header.split()) == (0, ["CALL", "STATUS", "KEY"])
    assert row.split()[:2] == ["beta.2.2", "in_doubt"]
    assert len(row.split()[2]) == 64, "a table that no terminal shows is never cut"
    code, out, _ = typed(folder, capsys, "runs", "ls", "--columns", "run", "--status", "succeeded")
    assert (code, out) == (0, "RUN\nalpha-1\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("runs", "ls", "--columns", "run,stats"), "no column 'stats'; did you mean 'status'?"),
        (("calls", "ls", "--columns", "zzzz"), "there are: call, tool"),
        (("runs", "ls", "--columns", "run", "-o", "json"), "--columns belongs to tables"),
        (("runs", "ls", "--status", "lost"), "invalid choice: 'lost'"),
        (("calls", "ls", "--since", "soon"), "neither a duration"),
        (("calls", "ls", "--effects", "extern"), "invalid choice: 'extern'"),
        (("runs", "ls", "--time", "utc"), "invalid choice: 'utc'"),
    ],
)
def test_a_list_that_cannot_be_printed_is_a_plain_error(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    code, _, err = typed(folder, capsys, *words)
    assert code == 2
    assert says in err
    assert err.startswith("error[PERDURE-140]: ")


def test_times_can_be_asked_for_in_either_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, plain, _ = typed(folder, capsys, "runs", "ls", "--columns", "created")
    _, relative, _ = typed(folder, capsys, "runs", "ls", "--columns", "created", "--time", "relative")
    assert plain.splitlines()[1].endswith("Z")
    assert relative.splitlines()[1].endswith(" ago")


def test_ids_that_a_command_prints_can_be_looked_up_in_the_store(folder: Path, engine: Engine) -> None:
    """R007: each of run, step, call (ledger row), receipt and checkpoint has an id that leads back to its row."""
    found = perdure.__version__ and engine.details("alpha-1")
    assert [step["step_id"] for step in found["steps"]] == ["alpha-1.s0"]
    call = engine.call("alpha-1.2")
    assert (call["run_id"], call["step_id"], call["response"]) == ("alpha-1", "alpha-1.s0", '"sent 1"')
    rows = engine._ledger.read(
        lambda store: list(
            store.connection.rows(
                "SELECT c.checkpoint_id, c.checkpoint_type, r.last_checkpoint_id FROM checkpoints c JOIN runs r"
                " ON r.run_id = c.run_id WHERE c.run_id = :run ORDER BY c.checkpoint_no",
                {"run": "alpha-1"},
            )
        )
    )
    assert rows[-1][0] == rows[-1][2]
