"""What cannot become a run is refused before there is a row of one, with the place of the mistake."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import tool
from perdure.cli.main import main as command_line
from perdure.model.errors import SpecError
from perdure.testing.clock import FakeClock
from tests.integration.engine_support import open_engine

AGENT = """
import functools
from perdure import tool

@tool
def send(to): ...

def main(run):
    return "done"

def nothing():
    return 1

async def waits_for_nothing():
    return 1

def two(one, other):
    return 2

def named(*, run):
    return 3

def yields(run):
    yield 1

class Agent:
    def __call__(self):
        return 4

agent = Agent()

def given(extra):
    def around(function):
        @functools.wraps(function)
        def inner(run):
            return function(run, extra)
        return inner
    return around

@given("more")
def decorated(run, extra):
    return extra

async def coroutine(run):
    return 5

def forgets_to_await(run):
    return coroutine(run)

async def forgets_too(run):
    return coroutine(run)

def any_arguments(*args, **named):
    return len(args)
"""


class Place:
    """A folder with an agent's module of its own, in which commands are typed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.module = f"refused_{folder.name}"
        self._capsys = capsys
        (folder / f"{self.module}.py").write_text(AGENT, "utf-8")
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        importlib.invalidate_caches()

    def type(self, *words: str) -> tuple[int, str, str]:
        code = command_line([*words])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def job(self, text: str) -> str:
        (self.folder / "x.job.yaml").write_text(f"name: x\nagent: {{python: '{self.module}:main'}}\n{text}", "utf-8")
        return "x.job.yaml"

    def runs(self) -> list[Any]:
        _, out, _ = self.type("runs", "ls", "-o", "json")
        found: list[Any] = json.loads(out)["runs"]
        return found


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, capsys, monkeypatch)


def line_of(text: str) -> int:
    return AGENT.splitlines().index(text) + 1


# --- a deadline that is over -------------------------------------------------------------------------------------


def test_a_deadline_in_the_past_is_refused_with_its_place_before_there_is_a_run(place: Place) -> None:
    code, _, said = place.type("run", place.job("objective: x\ndeadline: 2020-12-01T09:00:00Z\n"))
    first, safe, after, _ = said.splitlines()
    assert (code, first.startswith("error[PERDURE-131]: x.job.yaml:4:11: deadline: 2020-12-01T09:00:00")) == (2, True)
    assert "has passed already" in first
    assert safe == "  safe: No run was created and nothing was sent."
    assert after == "  next: write a later deadline, or none, and run the same command again"
    assert place.runs() == []


def test_a_run_whose_deadline_has_passed_since_is_still_attached_to_by_its_id(place: Place) -> None:
    job = place.job("deadline: 2026-11-20T13:00:00Z\n")
    for now, status in (("12:59", "succeeded"), ("13:01", "succeeded")):
        with open_engine(place.folder, clock=FakeClock(f"2026-11-20T{now}:00.000000Z")) as engine:
            assert engine.run(job, run_id="r1").status == status
            assert len(engine.runs()) == 1
    with open_engine(place.folder, clock=FakeClock("2026-11-20T13:00:00.000000Z")) as engine:
        with pytest.raises(SpecError, match="has passed already"):
            engine.run(job, run_id="r2")
        with pytest.raises(SpecError, match="has passed already"):
            engine.run(job)
        assert len(engine.runs()) == 1


# --- a main that the run cannot be given to ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("nothing", "def nothing():", "nothing() takes none: write def nothing(run)"),
        ("waits_for_nothing", "async def waits_for_nothing():", "waits_for_nothing() takes none"),
        ("two", "def two(one, other):", "two(one, other) takes other ones; what it needs comes from run.inputs"),
        ("named", "def named(*, run):", "named(*, run) takes other ones"),
        ("yields", "def yields(run):", "yields is a generator, for it has a yield"),
        ("Agent", "class Agent:", "Agent is a class; a run needs a function: def main(run)"),
        ("agent", "    def __call__(self):", "Agent() takes none"),
        ("send", "def send(to): ...", "send is a tool; a run needs a function that calls it: def main(run)"),
    ],
)
def test_a_main_that_cannot_be_called_with_the_run_is_refused_with_its_place(
    place: Place, name: str, line: str, says: str
) -> None:
    code, _, said = place.type("run", f"{place.module}.py:{name}")
    at = f"{place.module}.py:{line_of(line)}:{len(line) - len(line.lstrip()) + 1}: agent: "
    assert (code, said.splitlines()[0].startswith(f"error[PERDURE-131]: {at}")) == (2, True), said
    assert says in said.splitlines()[0]
    assert "  safe: No run was created and nothing was sent." in said
    assert place.runs() == []


@pytest.mark.parametrize(("name", "result"), [("decorated", '"more"'), ("any_arguments", "1"), ("coroutine", "5")])
def test_a_main_is_not_refused_for_what_its_decorator_gives_it(place: Place, name: str, result: str) -> None:
    code, out, said = place.type("run", f"{place.module}.py:{name}")
    assert (code, f"result     {result}\n" in out) == (0, True), said


def test_a_function_of_the_library_is_refused_the_same_way(tmp_path: Path) -> None:
    def main() -> None:
        """Take nothing."""

    with open_engine(tmp_path) as engine:
        with pytest.raises(SpecError, match=r"test_refused_before_a_run\.py:\d+:5: agent: .* main\(\) takes none"):
            engine.run(main)
        with pytest.raises(SpecError, match="send is a tool"):
            engine.run(tool(name="send")(main))
        assert engine.runs() == []


def test_a_main_that_has_lost_its_parameter_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        waits = engine.run(lambda run: run.ask("which?"), run_id="r1")
        with pytest.raises(SpecError, match="takes none") as caught:
            engine.resume("r1", main=lambda: None)
        assert caught.value.safe == "The run is untouched, and nothing was sent."
        assert engine.outcome("r1").attempt == waits.attempt


@pytest.mark.parametrize("name", ["forgets_to_await", "forgets_too"])
def test_a_main_that_returns_a_coroutine_has_not_succeeded(place: Place, name: str) -> None:
    code, out, _ = place.type("run", f"{place.module}.py:{name}", "-o", "json")
    assert code == 1
    assert "main returned the coroutine coroutine, which nobody awaits" in json.loads(out)["error"]["detail"]


def test_what_cannot_be_loaded_is_told_with_its_place_in_the_job_file(place: Place) -> None:
    text = "name: x\nagent:\n  python: MODULE:mian\n".replace("MODULE", place.module)
    (place.folder / "y.job.yaml").write_text(text, "utf-8")
    code, _, said = place.type("run", "y.job.yaml")
    assert (code, "]: y.job.yaml:3:11: agent: " in said) == (2, True), said
    assert said.splitlines()[0].endswith("has no function 'mian'; did you mean 'main'?")
    _, _, said = place.type("run", place.job("tools: [nowhere_at_all]\n"))
    assert "]: x.job.yaml:3:9: tools: cannot import 'nowhere_at_all'" in said
    _, _, said = place.type("run", place.job(f"critic: {place.module}:judge\n"))
    assert f"]: x.job.yaml:3:9: critic: {place.module} has no function 'judge'" in said
    assert place.runs() == []


# --- several errors, and what a program reads of them ------------------------------------------------------------


def test_each_error_of_a_job_file_is_an_object_of_its_own(place: Place) -> None:
    job = place.job("deadline: tomorrow\nbudgets: {max_stepz: 2, max_steps: 0}\n")
    code, out, said = place.type("run", job, "-o", "json")
    document = json.loads(out)
    assert (code, document["code"], len(document["errors"])) == (2, "PERDURE-131", 3)
    assert {(item["file"], item["code"]) for item in document["errors"]} == {("x.job.yaml", "PERDURE-131")}
    assert [(item["line"], item["column"], item["suggestion"]) for item in document["errors"]] == [
        (3, 11, None),
        (4, 11, "max_steps"),
        (4, 36, None),
    ]
    for item, line in zip(document["errors"], document["message"].split("\n"), strict=True):
        assert line == f"x.job.yaml:{item['line']}:{item['column']}: {item['message']}"
        assert line in said


@pytest.mark.parametrize("words", [("policy", "check"), ("policy", "test"), ("policy", "diff", "-")])
def test_each_error_of_a_policy_or_a_table_is_an_object_of_its_own(place: Place, words: tuple[str, ...]) -> None:
    text = "- {tool: a, expct: {}}\n- {tool: b}\n" if "test" in words else "version: 1\nruls: []\nrules: [{tol: a}]\n"
    (place.folder / "p.yaml").write_text(text, "utf-8")
    code, out, _ = place.type(*words, "p.yaml", "-o", "json")
    document = json.loads(out)
    assert (code, document["code"], len(document["errors"]) > 1) == (2, "PERDURE-201", True)
    for item in document["errors"]:
        assert set(item) == {"file", "line", "column", "code", "message", "suggestion"}
        assert (item["file"], item["line"] > 0, item["column"] > 0) == ("p.yaml", True, True)
    suggested = {item["suggestion"] for item in document["errors"]} - {None}
    assert suggested == ({"expect"} if "test" in words else {"rules", "tool"})


def test_an_error_that_stands_in_no_file_has_no_place(place: Place) -> None:
    code, out, _ = place.type("run", f"{place.module}.py:main", "-i", "one", "-i", "=2", "-o", "json")
    errors = json.loads(out)["errors"]
    assert (code, [item["file"] for item in errors], [item["line"] for item in errors]) == (2, [None] * 2, [None] * 2)
    assert errors[0]["message"] == "-i one: has no '=': write key=value"
    _, out, _ = place.type("runs", "show", "nowhere", "-o", "json")
    assert "errors" not in json.loads(out)
