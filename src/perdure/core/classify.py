"""Names of tools: whole tokens, patterns, and the risk a name speaks of.

A name can only *raise* a risk. ``SPREADSHEET_CLEAR``, ``BUDGET_TRANSFER``, ``TARGET_DEPLOY``,
``THREAD_REPLY`` and ``PLAYLIST_ADD`` contain READ, GET and LIST inside their words, so a name is cut into
words first (R048, R049, C10). This is the only file that uses RE2: patterns come from users, and RE2 matches
in linear time.
"""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from perdure.model.toolcall import SideEffectClass

RISK = {
    SideEffectClass.READ_ONLY: 0,
    SideEffectClass.LOCAL: 1,
    SideEffectClass.MEMORY: 2,
    SideEffectClass.EXTERNAL: 3,
}

# First the verbs of document 000 §7.4, then those of common tool catalogues. Words that are mostly nouns
# (email, message, issue, order) are left out: they would make a doubt of every read.
_WRITING = """
    send create update delete patch post merge upload invite publish comment reply forward archive label move
    mark assign

    accept activate add append apply approve attach authorize ban block book broadcast buy cancel change
    charge clear clone close commit complete confirm connect convert copy deactivate debit decline
    deploy deposit destroy detach disable disconnect dismiss dispatch drop duplicate edit emit enable
    enqueue erase execute fire follow fork generate grant hide import increment insert install join kick
    kill launch leave lock login logout modify mute notify overwrite pause pay pin provision purchase
    purge push put react reboot refund register reject release remove rename reopen replace reschedule
    reserve reset resolve restart restore resume retweet revoke rollback rotate run save schedule sell
    sendmail set share sign snooze spend start stop submit subscribe swap sync terminate toggle transfer
    trash trigger truncate tweet unarchive unassign unblock unfollow uninstall unlink unlock unmute
    unpin unpublish unshare unstar unsubscribe untag upsert vote wipe withdraw write
"""
_READING = "get list search read fetch retrieve find lookup query view show describe count"
WRITING_TOKENS = frozenset(_WRITING.split())
READING_TOKENS = frozenset(_READING.split())

_SUBAGENT_TOOLS = frozenset({("claude_code", "Task"), ("claude_code", "Agent")})
AGENT_NAMESPACE = "agent"
WORDING_FIELDS = frozenset({"subject", "body", "text", "title", "message"})


def riskier(one: SideEffectClass, other: SideEffectClass) -> SideEffectClass:
    """Return the class that may do more harm."""
    return one if RISK[one] >= RISK[other] else other


def is_subagent(namespace: str, name: str) -> bool:
    """Return whether a call starts another agent, which is always launched again (R091)."""
    return namespace == AGENT_NAMESPACE or (namespace, name) in _SUBAGENT_TOOLS


def tokens(name: str) -> tuple[str, ...]:
    """Cut ``name`` into lower-case words at case changes, digits and everything that is no letter."""
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return tuple(word.casefold() for run in _runs(visible) for word in _words(run))


def _runs(text: str) -> Iterator[str]:
    start = 0
    for end, char in enumerate([*text, " "]):
        if not char.isalpha():
            if start < end:
                yield text[start:end]
            start = end + 1


def _words(run: str) -> Iterator[str]:
    """Cut ``HTTPPostJSON`` into ``HTTP Post JSON``."""
    start = 0
    for i in range(1, len(run)):
        rises = run[i].isupper() and not run[i - 1].isupper()
        ends_acronym = run[i].isupper() and i + 1 < len(run) and run[i + 1].islower()
        if rises or ends_acronym:
            yield run[start:i]
            start = i
    yield run[start:]


def writing_token(name: str) -> str | None:
    """Return the first word of ``name`` that speaks of a change, if there is one."""
    return next((token for token in tokens(name) if token in WRITING_TOKENS), None)


def reading_token(name: str) -> str | None:
    """Return the first word of ``name`` that speaks of reading, unless one speaks of a change."""
    if writing_token(name) is not None:
        return None
    return next((token for token in tokens(name) if token in READING_TOKENS), None)


def raised_by_name(given: SideEffectClass, name: str) -> SideEffectClass:
    """Return ``given``, or external where the name speaks of a change; never a lower risk."""
    return given if writing_token(name) is None else SideEffectClass.EXTERNAL


def is_glob(pattern: str) -> bool:
    """Return whether a ``tool:`` entry is a glob and not an exact name."""
    return any(char in pattern for char in "*?[")


def is_bare_wildcard(pattern: str) -> bool:
    """Return whether a glob names nothing at all, such as ``*``."""
    return is_glob(pattern) and all(char in "*?" for char in pattern)


def glob_matches(pattern: str, name: str) -> bool:
    """Return whether a glob matches the whole of ``name``; upper and lower case differ."""
    return fnmatch.fnmatchcase(name, pattern)


def regex_matches(pattern: str, name: str) -> bool:
    """Return whether an RE2 pattern is found anywhere in ``name``; ``^`` and ``$`` anchor it."""
    found = _compiled(pattern).search(name.encode("utf-8", "replace").decode("utf-8"))
    return found is not None


def regex_problem(pattern: str) -> str | None:
    """Return what is wrong with an RE2 pattern, or ``None``."""
    try:
        _compiled(pattern)
    except (_re2().error, UnicodeError) as problem:
        said: object = problem.args[0] if problem.args else problem
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return f"{text} (RE2 syntax: no look-ahead, look-behind or back-reference)"
    return None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False  # it would print to stderr beside our own error
    return re2.compile(pattern, options)


def _re2() -> Any:
    import re2  # type: ignore[import-untyped]

    return re2
