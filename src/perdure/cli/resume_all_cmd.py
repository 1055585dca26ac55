"""``perdure resume --all``: every run that can go on without a person, and one summary of those that did not (R133)."""

from __future__ import annotations

import argparse

from perdure.cli.opening import engine_of
from perdure.cli.output import Output, note
from perdure.cli.values import duration_of
from perdure.model.errors import UsageError

_ALONE = ("wait", "kill_owner", "grant")


def resume_all(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure resume --all``."""
    from perdure.runtime.going_on import went_on_document

    max_age_seconds = _max_age_seconds(options)
    with engine_of(options) as engine, output.to_itself():
        found = engine.resume_all(max_age_seconds=max_age_seconds)
    document = went_on_document(found)

    def text() -> str:
        went_on = [(run.run_id, run.name, str(run.status), run.reason or "", "") for run in found.resumed]
        left = [(run.run_id, run.name, run.status, run.why, run.command) for run in found.skipped]
        return output.table(("RUN", "NAME", "STATUS", "WHY", "NEXT"), [*went_on, *left])

    output.answer(document, text)
    note(found.summary())
    return found.exit_code


def _max_age_seconds(options: argparse.Namespace) -> float:
    from perdure.core.duration import parse_duration
    from perdure.core.going_on import DEFAULT_MAX_AGE_SECONDS

    if not options.all:
        raise UsageError("which run? an id, or --all", next_command="perdure resume --help")
    if options.run is not None:
        raise UsageError("a run or --all, not both", next_command="perdure resume --help")
    given = [name for name in _ALONE if getattr(options, name)]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} goes with one run, not with --all")
    if options.max_age is None:
        return DEFAULT_MAX_AGE_SECONDS
    try:
        return parse_duration(duration_of(options.max_age))
    except ValueError as problem:
        raise UsageError(f"--max-age: {problem}", next_command="perdure resume --help") from None
