"""What people type for a run, a state or a time, and what it means."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from datetime import UTC

from perdure.core.duration import parse_duration
from perdure.model.errors import NotFound, UsageError
from perdure.ports.clock import after, format_time, parse_time
from perdure.store.sql_store import SqlStore


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
    if store.runs.get(text) is not None:
        return text
    found = store.runs.ids_like(text) if text else []
    if len(found) != 1:
        several = f" ({', '.join(found)} …)" if found else ""
        raise NotFound(f"{'several runs begin' if found else 'no run begins'} with {text!r}{several}")
    return found[0]


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
            "2026-11-22T09:00:00Z",
            next_command="the same command with --since 24h, for example",
        ) from None
    return format_time(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
