"""``perdure crashtest JOB``: the crash test of a user's own job, its tables and its page."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli.look_cmd import ENDLESS
from perdure.cli.opening import engine_of, settings_of
from perdure.cli.output import Output, note, visible
from perdure.model.errors import UsageError
from perdure.model.toolcall import INNER_NAMESPACES

if TYPE_CHECKING:
    from perdure.config.job import JobFile
    from perdure.testing.crashtest.plan import Plan
    from perdure.testing.crashtest.verdict import Passage

HELP = "perdure crashtest --help"
MEMORY = "/dev/shm"
MEMORY_NEEDED_BYTES = 512 * 1024 * 1024


def crashtest(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure crashtest``; 1 if a crash point repeated or lost an effect, or got stuck.

    Raises:
        SimulationMissing: a tool has no value for its stand-in; nothing was run.
        SpecError, UsageError: the job or a flag makes no sense.
        CrashTestError: it could not be carried out.
    """
    from perdure.config.job_file import open_job
    from perdure.testing.crashtest.carry_out import carry_out
    from perdure.testing.crashtest.document import document_of

    job = open_job(options.job)
    page = _page_path(options.html)
    plan = plan_of(options, job)
    keep = plan.keep
    try:
        found = carry_out(plan, tell=note, on_passage=_Progress())
        keep = keep or not found.ok
    finally:
        if not keep:
            shutil.rmtree(plan.folder, ignore_errors=True)
    command = f"perdure crashtest {shlex.join(_typed(options))}"
    document = document_of(found, plan, job=options.job, command=command)
    if page is not None:
        from perdure.testing.crashtest.page import page as page_of

        page.write_text(page_of(document), "utf-8")
    output.answer(document, lambda: tables(document, output), rows="points")
    note(*([f"files: {plan.folder}"] if keep else []), *([f"page: {page}"] if page is not None else []))
    return 0 if found.ok else 1


def plan_of(options: argparse.Namespace, job: JobFile) -> Plan:
    """Return what the flags ask for.

    Raises:
        UsageError: a flag makes no sense, or no sense beside another one.
    """
    from perdure.config.inputs import parse_inputs
    from perdure.testing.crashtest.plan import Plan, parse_points, parse_returns

    points = parse_points(options.points) if options.points is not None else ()
    if options.live and not (points or options.worst) and options.max_points is None:
        raise UsageError(
            "--live enters the real tools about as often as there are crash points; say how often with --max-points, "
            "--points or --worst",
            next_command=f"perdure crashtest {shlex.quote(options.job)} --live --max-points 10",
        )
    if options.worst and (points or options.max_points is not None):
        raise UsageError("--worst kills once after each tool; leave --points and --max-points out", next_command=HELP)
    if options.live and (options.returns or options.from_run or options.stub_reads):
        raise UsageError("--live enters the real tools; --returns, --from-run and --stub-reads say what replaces them",
                         next_command=HELP)  # fmt: skip
    plan = Plan(
        job=_absolute(options.job),
        folder=Path(),
        inputs=parse_inputs(options.input, job.inputs),
        policies=tuple(str(path.absolute()) for path in settings_of(options).policy_paths()),
        points=points,
        worst=options.worst,
        max_points=options.max_points,
        jobs=options.jobs,
        live=options.live,
        stub_reads=options.stub_reads,
        returns=parse_returns(options.returns),
        stored=_stored(options, job) if options.from_run else (),
        life_seconds=options.life_seconds,
        keep=options.folder is not None,
    )
    return replace(plan, folder=_folder(options.folder))


def _absolute(job: str) -> str:
    """Return a job as a process in any folder finds it; ``open_job`` has accepted it before."""
    head, colon, function = job.rpartition(":")
    is_target = bool(colon) and head.endswith(".py") and "/" not in function
    return f"{Path(head).absolute()}:{function}" if is_target else str(Path(job).absolute())


def _folder(given: str | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="perdure-crashtest-", dir=_memory()))
    folder = Path(given).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{given} is not an empty folder; a crash test counts, and must begin at nothing",
                         next_command=HELP)  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _memory() -> str | None:
    """Return a folder in memory: what a killed process wrote is there, synced or not, and syncs take time."""
    try:
        free = shutil.disk_usage(MEMORY).free if os.access(MEMORY, os.W_OK) else 0
    except OSError:
        free = 0
    return MEMORY if free >= MEMORY_NEEDED_BYTES else None


def _page_path(given: str | None) -> Path | None:
    if given is None:
        return None
    path = Path(given).absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--html {given}: no file can be written there", next_command=HELP)
    return path


def _stored(options: argparse.Namespace, job: JobFile) -> tuple[Mapping[str, Any], ...]:
    """Return the calls of an earlier run, whose receipts the stand-ins give back."""
    found: list[Mapping[str, Any]] = []
    with engine_of(options) as engine:
        run_id = engine.find_run(options.from_run)
        name = engine.outcome(run_id).name
        if name != job.name:
            raise UsageError(f"--from-run {options.from_run}: that is a run of {name}, not of {job.name}",
                             next_command="perdure runs ls")  # fmt: skip
        for row in engine.calls(run_id, limit=ENDLESS, inner=True):
            if row["status"] == "succeeded":
                call = engine.call(row["tool_call_id"])
                inner = call["tool_namespace"] in INNER_NAMESPACES
                label = f"{call['tool_namespace']}:{call['tool_name']}" if inner else call["tool_name"]
                response = json.loads(call["response"] or "null")
                found.append({"tool": label, "request": json.loads(call["request"]), "response": response})
    return tuple(found)


def _typed(options: argparse.Namespace) -> list[str]:
    """Return the arguments that say what was tried, for somebody who tries it again."""
    words = [options.job, *(word for pair in options.input for word in ("-i", pair))]
    words += [word for pair in options.returns for word in ("--returns", pair)]
    for flag, value in (("--points", options.points), ("--max-points", options.max_points),
                        ("--from-run", options.from_run)):  # fmt: skip
        words += [flag, str(value)] if value is not None else []
    return words + [
        flag for flag in ("--live", "--stub-reads", "--worst") if getattr(options, flag[2:].replace("-", "_"))
    ]


class _Progress:
    """Says on a terminal how far the test is, and everywhere, at once, what went wrong."""

    def __init__(self) -> None:
        self._done = 0
        self._moves = bool(sys.stderr) and sys.stderr.isatty()

    def __call__(self, passage: Passage, about: int) -> None:
        self._done += 1
        if passage.verdict.is_bad:
            note(f"point {passage.point or passage.where}: {passage.verdict}: {'; '.join(passage.reasons)}")
        if self._moves:
            end = "\n" if self._done >= about else "\r"
            sys.stderr.write(f"{min(self._done, about)} of about {about} crash points{end}")
            sys.stderr.flush()


def tables(document: Mapping[str, Any], output: Output) -> str:
    """Return the document as a person reads it."""
    tools = output.table(
        ("TOOL", "CLASS", "REPLAY POLICY", "GUARANTEE", "STAND-IN RETURNS"),
        ((tool["tool"], tool["class"], tool["replay_policy"], tool["guarantee"], tool["returns"])
         for tool in document["tools"]),
    )  # fmt: skip
    points = output.table(
        ("POINT", "KILLED", "VERDICT", "LIVES"),
        ((point["point"], point["where"], point["words"], point["lives"]) for point in document["points"]),
    )
    better = [f"  {tool['tool']}: {tool['advice']}" for tool in document["tools"] if tool["advice"]]
    expected = [f"  {item['times']} × {item['effect']}" for item in document["expected"]]
    parts = [
        tools,
        _block("for a better guarantee:", better),
        _block("a clean run does:", expected),
        points,
        _block("why:", _reasons(document["points"])),
        visible(f"{document['verdict']} ({document['seconds']} s)") + "\n",
    ]
    return "\n".join(part for part in parts if part)


def _block(title: str, lines: list[str]) -> str:
    return "".join(visible(line) + "\n" for line in [title, *lines]) if lines else ""


def _reasons(points: list[Mapping[str, Any]]) -> list[str]:
    """Return each reason once, with the points that have it."""
    found: dict[str, list[int]] = {}
    for point in points:
        for reason in point["why"]:
            found.setdefault(reason, []).append(point["point"] or 0)
    return [f"  {_ranges(numbers)}: {reason}" for reason, numbers in found.items()]


def _ranges(numbers: list[int]) -> str:
    """Return rising numbers as they are typed for ``--points``."""
    found: list[list[int]] = []
    for number in sorted({*numbers} - {0}):
        if found and found[-1][-1] == number - 1:
            found[-1].append(number)
        else:
            found.append([number])
    return (
        "after it"
        if numbers == [0]
        else ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
    )
