"""One life in a real process, and what its parent is told of it; and what is said of effects that are wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.testing import (
    Crashes,
    DidNotCrash,
    Launcher,
    LifeBroke,
    Order,
    Place,
    Provider,
    WrongEffects,
    assert_effects,
)
from perdure.testing.provider.request import post

JOB = """
import os, signal, sys, threading
from perdure import tool


@tool(side_effect_class="external", scope=["to"], key_ttl="forever", max_attempts=100)
def put(to: str) -> str:
    with open(to, "w") as file:
        file.write("done")
    return to


def main(run):
    print("said to the user")
    return (put(run.inputs["to"]),)


def fails(run):
    raise ValueError("no such luck")


def hangs(run):
    threading.Event().wait()


def leaves(run):
    sys.exit(3)


def shot(run):
    os.kill(os.getpid(), signal.SIGKILL)


def shot_once(run):
    if run.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return run.attempt
"""


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as running:
        yield running


@pytest.fixture
def order(tmp_path: Path) -> Order:
    (tmp_path / "job.py").write_text(JOB, "utf-8")
    return Order(f"{tmp_path}/job.py:main", str(tmp_path / "state"), inputs={"to": str(tmp_path / "file")})


def of(order: Order, main: str) -> Order:
    return replace(order, job=order.job.replace(":main", f":{main}"))


def test_a_life_that_ends_by_itself_tells_where_the_run_stands(launcher: Launcher, order: Order) -> None:
    life = launcher.live(order)
    assert (life.status, life.exit_code, life.crashed_at, life.points_passed) == ("succeeded", 0, None, None)
    assert life.document["schema"] == "perdure.run/v1"
    assert [(call["tool_name"], call["guarantee"]) for call in life.calls] == [("put", "create-if-absent")]
    assert (life.stdout, life.stderr) == ("said to the user\n", "")
    assert life.pid != os.getpid()
    failed = launcher.live(of(replace(order, run_id="other"), "fails"))
    assert (failed.status, failed.exit_code) == ("failed", 1)
    assert "no such luck" in str(failed)


def test_a_killed_life_tells_nothing_but_the_place(launcher: Launcher, order: Order) -> None:
    life = launcher.live(order, Place(tool="put"))
    assert (life.exit_code, life.crashed_at, life.document, life.calls) == (137, "after tool put call job.1", {}, ())
    assert Path(str(order.inputs["to"])).read_text("utf-8") == "done"
    through = launcher.live(order, Place(point=900))
    assert through.status == "succeeded" and through.crashed_at is None
    assert through.points_passed is not None and 5 < through.points_passed < 900


def test_knobs_of_the_tests_own_environment_do_not_reach_a_life(
    launcher: Launcher, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_TEST_CRASH_AFTER_TOOL", "put")
    assert launcher.live(order).exit_code == 0


def test_every_numbered_point_is_passed_once(launcher: Launcher, order: Order, tmp_path: Path) -> None:
    passages = list(Crashes(launcher).every_point(lambda point: replace(order, state_dir=f"{tmp_path}/{point}")))
    assert [passage.place for passage in passages] == [Place(point=n + 1) for n in range(len(passages))]
    assert len(passages) > 15
    assert {(passage.status, len(passage.lives)) for passage in passages} == {("succeeded", 2)}
    assert passages[0].result == (order.inputs["to"],)
    few = Crashes(launcher).every_point(lambda point: replace(order, state_dir=f"{tmp_path}/few-{point}"), last=2)
    assert [passage.place for passage in few] == [Place(point=1), Place(point=2)]
    with pytest.raises(DidNotCrash, match="has no point 900"):
        next(Crashes(launcher).every_point(lambda point: replace(order, state_dir=f"{tmp_path}/{point}"), first=900))


def test_a_life_that_is_killed_by_somebody_else_is_no_passage(launcher: Launcher, order: Order) -> None:
    with pytest.raises(LifeBroke, match=f"exit code -{signal.SIGKILL:d}"):
        Crashes(launcher).passage(of(order, "shot_once"), Place(tool="put"))
    with pytest.raises(LifeBroke, match="exit code 3"):
        Crashes(launcher).passage(of(replace(order, run_id="second"), "leaves"), Place(point=900))


def test_a_life_that_hangs_is_killed_with_its_children_and_said_to_hang(launcher: Launcher, order: Order) -> None:
    with pytest.raises(LifeBroke, match=r"did not end within 0\.5 s"):
        Crashes(launcher, seconds=0.5).passage(of(order, "hangs"), Place(tool="put"))
    assert launcher.live(of(replace(order, run_id="next"), "main")).status == "succeeded", "the launcher goes on"


def test_a_run_that_does_not_end_is_given_up(launcher: Launcher, order: Order) -> None:
    killed = Crashes(launcher).kill(order, Place(point=3))
    passage = Crashes(launcher).passage(replace(order, run_id="whole"), Place(tool="put"))
    with pytest.raises(LifeBroke, match="not ended after 1 lives"):
        Crashes(launcher, most_lives=1).go_on(replace(passage, lives=(killed,)))


def test_an_error_before_the_run_begins_is_told_with_its_words(launcher: Launcher, order: Order) -> None:
    life = launcher.live(of(order, "nothing"))
    assert (life.exit_code, life.document["schema"]) == (2, "perdure.error/v1")
    assert "nothing" in life.document["message"] and life.status is None
    with pytest.raises(LifeBroke, match="has no function 'nothing'"):
        Crashes(launcher).passage(of(order, "nothing"), Place(point=1))


def test_lives_end_with_the_test_process(order: Order, tmp_path: Path) -> None:
    code = f"""
import os, sys
from perdure.testing import Launcher, Order
with Launcher() as launcher:
    print(launcher.live(Order({order.job!r}, {order.state_dir!r}, inputs={dict(order.inputs)!r})).status, flush=True)
    print(launcher._starter.pid, flush=True)
    launcher.live(Order({of(order, "hangs").job!r}, {order.state_dir!r}, run_id="hangs"))
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "succeeded\n"
    launcher_pid = int(parent.stdout.readline())
    handle = os.pidfd_open(launcher_pid) if hasattr(os, "pidfd_open") else None
    parent.kill()
    parent.wait()
    parent.stdout.close()
    if handle is None:
        pytest.skip("this system has no pidfd to wait with")
    import select

    ended, _, _ = select.select([handle], [], [], 5)
    os.close(handle)
    assert ended, "the launcher and its life outlived the test process"


def test_effects_are_compared_as_often_as_they_happened() -> None:
    assert_effects({"mail": 1, "fax": 0}, ["mail"])
    assert_effects(["mail", "fax", "mail"], {"mail": 2, "fax": 1})
    with pytest.raises(WrongEffects) as caught:
        assert_effects({"twice": 2, "other": 1, "right": 1}, {"twice": 1, "never": 1, "right": 1})
    wrong = caught.value
    assert (wrong.repeated, wrong.lost, wrong.uninvited) == ({"twice"}, {"never"}, {"other"})
    assert str(wrong).splitlines()[1:] == [
        "  LOST        never  asked for 1, seen 0",
        "  UNINVITED   other  asked for 0, seen 1",
        "  REPEATED    twice  asked for 1, seen 2",
        "  (1 other effects are right)",
    ]
    with pytest.raises(TypeError, match="counts by name"):
        assert_effects({"mail": 1}, "mail")


def test_a_wrong_effect_is_shown_as_the_provider_saw_it(tmp_path: Path) -> None:
    with Provider(tmp_path / "log.jsonl", fsync=False) as provider:
        provider.control("keyed", land_late_on_release=True)
        post(f"{provider.url}/keyed", {"what": "pay", "cents": 5}, {"Idempotency-Key": "k1"})
        provider.wait_for("held")
        assert_effects(provider, {})
        provider.release()
        provider.wait_for("effect")
    assert_effects(provider, ["pay"])
    with pytest.raises(WrongEffects) as caught:
        assert_effects(provider, [], state_dir=tmp_path, run_id="r")
    told = str(caught.value)
    assert "p1 by POST /keyed at 20" in told and "key k1, landed late, body {'what': 'pay', 'cents': 5}" in told
    assert f"perdure calls explain r.1 --state-dir {tmp_path}" in told and str(provider.log_path) in told
