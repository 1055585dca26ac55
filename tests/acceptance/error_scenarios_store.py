"""Each error code on purpose: policies, the place of the ledger, its rows and the installation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import perdure.demo.command as demo_command
from perdure.cli.failure import ENVIRONMENT_CODE, INTERNAL_CODE
from perdure.cli.main import main as command
from perdure.demo import report_job
from perdure.testing.smoke import lives
from tests.acceptance.error_scenarios import raising, reaches, typed
from tests.integration.canaries import canaries
from tests.integration.engine_support import Crash, live, open_engine
from tests.integration.store_support import NOW
from tests.integration.trust_support import LEDGER, meddle, send


@reaches("PERDURE-201", "PERDURE-203", "PERDURE-204", "PERDURE-205", "PERDURE-206", "PERDURE-207", "PERDURE-208")
@reaches("PERDURE-202", "PERDURE-209", "PERDURE-210")
def bad_policies(folder: Path) -> int:
    """Every mistake that a policy file can hold."""
    wrong = {
        "a": "version: 1\nrules:\n  - {tool: x, aproval: always}\n  - {tool: y, side_effect_class: huge}\n"
        "  - {tool: z, timeout: soon}\n  - {tool_name_regex: '(?=x)'}\n  - {tool: v, approval: {when: {a: '>x y'}}}\n"
        "  - {tool: u, replay_policy: REPLAY_IDEMPOTENT}\n  - {side_effect_class: local}\n",
        "b": "version: 1\nrules: [\n",
    }
    for name, text in wrong.items():
        (folder / name).write_text(text, "utf-8")
    return sum(command(["policy", "check", str(folder / name), "-o", "json"]) for name in ("a", "b", "nowhere"))


@reaches(ENVIRONMENT_CODE)
def nowhere_to_stand(folder: Path) -> int:
    """A working directory that somebody has removed."""
    (folder / "gone").mkdir()
    os.chdir(folder / "gone")
    (folder / "gone").rmdir()
    return command(["db", "path", "-o", "json"])


@reaches("PERDURE-402")
def from_the_future(folder: Path) -> None:
    """A ledger that says that it was made by a later version."""
    meddle(folder, f"INSERT INTO schema_migrations VALUES (99, 'later', 'x', '{NOW}')")
    open_engine(folder)


@reaches("PERDURE-403")
def no_room(folder: Path) -> None:
    """A database that may not grow any more."""

    def main(run: Any) -> None:
        pages = engine._ledger.read(lambda s: next(s.connection.rows("PRAGMA page_count", {}))[0])
        engine._ledger.read(lambda s: list(s.connection.rows(f"PRAGMA max_page_count = {pages}", {})))
        for number in range(50):
            run.memo(f"m{number}", str.ljust, "x", 60_000)

    with open_engine(folder) as engine:
        engine.run(main, run_id="full")


@reaches("PERDURE-404")
def a_rule_of_somebody_else(folder: Path) -> None:
    """A trigger that another program has put into the ledger."""
    meddle(folder, "CREATE TRIGGER mine BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'closed'); END")
    with open_engine(folder) as engine:
        engine.run(lambda run: None, run_id="new")


@reaches("PERDURE-405")
def a_flipped_bit(folder: Path) -> None:
    """A byte of a page that is not what was written."""
    content = bytearray((folder / LEDGER).read_bytes())
    content[content.rindex(b"sent to bob")] ^= 1
    (folder / LEDGER).write_bytes(content)
    with open_engine(folder) as engine:
        engine.calls()


@reaches(INTERNAL_CODE)
def a_row_that_nobody_could_have_written(folder: Path) -> int:
    """A ledger that somebody has changed in a way that is not foreseen."""
    meddle(folder, "UPDATE runs SET policies_json = '{' WHERE run_id = 'r2'")
    return typed("runs", "show", "r2")(folder)


@reaches("PERDURE-406")
def the_key_is_gone(folder: Path) -> None:
    """A stored value in which there was a secret, and the ledger's key was lost."""

    def main(run: Any) -> None:
        run.memo("token", str, canaries()[0].text)
        raise Crash

    live(folder / "key", main)
    next((folder / "key").rglob("redaction.key")).unlink()
    raising(lambda run: run.memo("token", str, canaries()[0].text), resume=True)(folder / "key")


@reaches("PERDURE-604")
def no_time(folder: Path) -> int:
    """A machine on which a life of the smoke test does not end in time."""
    before, lives._LONGEST_LIFE_SECONDS = lives._LONGEST_LIFE_SECONDS, 0.001
    try:
        return command(["smoke", "--folder", str(folder / "smoke"), "-o", "json"])
    finally:
        lives._LONGEST_LIFE_SECONDS = before


@reaches("PERDURE-407")
def pruned(folder: Path) -> None:
    """A failed run whose bodies were removed is resumed."""

    def main(run: Any) -> None:
        send("ann")
        raise Crash

    with open_engine(folder) as engine:
        assert engine.run(main, run_id="r3").status == "failed"
    assert typed("db", "prune", "--older-than", "0s")(folder) == 0
    with open_engine(folder) as engine:
        engine.resume("r3", main=main)


@reaches("PERDURE-602")
def no_example(folder: Path) -> None:
    """An installation without the demo's job."""
    before, report_job.JOB_NAME = report_job.JOB_NAME, "gone.job.yaml"
    try:
        report_job.job_file()
    finally:
        report_job.JOB_NAME = before


@reaches("PERDURE-603")
def no_demo(folder: Path) -> int:
    """An installation without a package of the demo."""
    before, demo_command._NEEDED = demo_command._NEEDED, ("a_package_that_nobody_has",)
    try:
        return command(["demo", "-o", "json", "--folder", str(folder / "demo")])
    finally:
        demo_command._NEEDED = before
