"""What people type for a run, a state or a time, and what it means."""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Sequence
from datetime import UTC

from perdure.core.duration import parse_duration
from perdure.model.errors import NotFound, UsageError
from perdure.model.problem import did_you_mean
from perdure.ports.clock import after, format_time, parse_time
from perdure.store.sql_store import SqlStore

SEVERAL = 5
"""So many runs are named at most where a prefix fits several."""
NEAR = 200
"""Among so many of the newest runs is looked for the one that was meant."""


def find_run(store: SqlStore, text: str) -> str:
    """Return the id of a run given by its id, a unique prefix, or ``@last``.

    Raises:
        NotFound: none or several match.
    """
    if text == "@last":
        last = store.runs.last_id()
        if last is None:
            raise NotFound("there is no run yet", next_command="perdure run JOB")
        return last
    if store.listed.run(text) is not None:
        return text
    if not text.strip():
        raise NotFound("the id of a run is empty: give its id, a unique prefix of it, or @last")
    found = store.runs.ids_like(text)
    if len(found) > 1:
        more = ", …" if len(found) > SEVERAL else ""
        raise NotFound(f"several runs begin with {text!r}: {', '.join(found[:SEVERAL])}{more}")
    if not found:
        raise no_run(store, text)
    return found[0]


def no_run(store: SqlStore, text: str) -> NotFound:
    """Return the error of a word that names no run: what it names instead, or the nearest run."""
    call, question = store.calls.by_id(text), store.questions.get(text)
    if call is not None:
        return _other(text, f"a call of run {call.run_id}", "runs show", call.run_id, f"calls show {call.tool_call_id}")
    if question is not None:
        return _other(text, f"a question of run {question.run_id}", "inbox", question.run_id, None)
    ids = {row.run_id.lower(): row.run_id for row in store.runs.newest(status=None, limit=NEAR)}
    near = difflib.get_close_matches(text.lower(), ids, n=1, cutoff=0.7)
    return NotFound(f"no run begins with {text!r}" + (did_you_mean(ids[near[0]]) if near else ""))


def no_call(store: SqlStore, text: str) -> NotFound:
    """Return the error of a word that names no call."""
    run, question = store.listed.run(find_run(store, text) if text == "@last" else text), store.questions.get(text)
    of_run = store.listed.run(text.rpartition(".")[0])
    if run is not None:
        return _other(text, f"a run; its calls are {run.run_id}.1 and so on", "calls ls", run.run_id, None)
    if question is not None:
        about = f"calls show {question.tool_call_id}" if question.tool_call_id else None
        return _other(text, f"a question of run {question.run_id}", "inbox", question.run_id, about)
    said = "" if of_run is None else f"; run {of_run.run_id} has {store.calls.count(of_run.run_id)}"
    listed = "perdure calls ls" + ("" if of_run is None else f" {shlex.quote(of_run.run_id)}")
    return NotFound(f"there is no call {text!r}{said}", next_command=listed)


def no_question(store: SqlStore, text: str) -> NotFound:
    """Return the error of a word that names no question."""
    run, call = store.listed.run(text), store.calls.by_id(text)
    if run is not None:
        return _other(text, "a run, and no question", "inbox", run.run_id, None)
    if call is not None:
        return _other(text, f"a call of run {call.run_id}, and no question", "inbox", call.run_id, None)
    return NotFound(f"there is no question {text!r}", next_command="perdure inbox")


def _other(text: str, what: str, command: str, run_id: str, more: str | None) -> NotFound:
    beside = f"   # or: perdure {more}" if more else ""
    return NotFound(f"{text!r} is {what}", next_command=f"perdure {command} {shlex.quote(run_id)}{beside}")


def checked_word(word: str | None, words: Sequence[str], what: str) -> str | None:
    """Return a word of a fixed list.

    Raises:
        UsageError: it is none of them; the nearest is named.
    """
    if word is None or word in words:
        return word
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    hint = f"did you mean {str(near[0])!r}?" if near else f"there are: {', '.join(words)}"
    raise UsageError(f"{word!r} is not {what}; {hint}")


def moment_since(since: float | str | None, now: str) -> str | None:
    """Return the time that ``since`` means, or ``None`` for always.

    Args:
        since: seconds before now, a duration such as ``24h``, or a time; one without a zone is UTC.
        now: the present.

    Raises:
        UsageError: it is neither.
    """
    if since is None:
        return None
    try:
        seconds = parse_duration(since)
    except ValueError:
        return _moment(str(since))
    return None if math.isinf(seconds) else after(now, -seconds)


def _moment(text: str) -> str:
    try:
        found = parse_time(text)
    except ValueError:
        raise UsageError(
            f"since {text!r}: neither a duration such as 90 (seconds), 30m, 24h or 7d, nor a time such as "
            "2026-11-22T09:00:00Z"
        ) from None
    return format_time(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
