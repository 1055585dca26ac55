"""What a model remembers: the messages it is given decide which results it has seen (semantics R0, ML).

A conversation goes on as long as its messages only grow. When some are taken out, a new context begins: what the model
is not told any more it has not seen, and the calls behind it are unmet again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.core.answers import plain, result_ids
from perdure.core.codec import Unstorable, canonical
from perdure.model.errors import UnstorableValue
from perdure.runtime.context import Context, Reader
from perdure.store.sql_store import SqlStore

_START = hashlib.sha256(b"perdure conversation").digest()


@dataclass(eq=False, slots=True)
class Conversation:
    """One loop of one model.

    Args:
        branch: the spawn path it is held on.
        reader: what it has seen.
        messages, digests: those of its last turn; the k-th digest covers the first k messages.
        told: the rows behind each result, by the model's own id of the call.
        lists: the rows that the result of a challenged call has listed, by the same id.
        shown: the ids of which a result stood in the messages.
    """

    branch: str
    reader: Reader
    messages: list[Any] = field(default_factory=list[Any])
    digests: list[bytes] = field(default_factory=lambda: [_START])
    told: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    lists: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    shown: set[str] = field(default_factory=set[str])

    def same_prefix(self, messages: Sequence[Any]) -> int:
        """Return how many messages of the last turn still stand at the beginning of ``messages``."""
        count = 0
        for known, given in zip(self.messages, messages, strict=False):
            if known is not given and _digest(self.digests[count], given) != self.digests[count + 1]:
                break
            count += 1
        return count

    def take(self, messages: Sequence[Any], count: int) -> list[Any]:
        """Take the messages of the next turn, of which the first ``count`` are known; return the new ones."""
        del self.messages[count:], self.digests[count + 1 :]
        for message in messages[count:]:
            self.digests.append(_digest(self.digests[-1], message))
            self.messages.append(message)
        return list(messages[count:])

    @property
    def digest(self) -> str:
        """What identifies all its messages, however many turns they came in."""
        return self.digests[-1].hex()

    def tell(self, call_id: str, row: int, listed: Iterable[int]) -> None:
        """Remember which row the result of a call is about, and which ones it lists."""
        self.told[call_id].add(row)
        self.lists[call_id].update(listed)

    def read_lists(self, *, ids: bool, fresh: bool) -> None:
        """Count what challenges have listed as known, now that the model is given their results to read.

        Not before: the calls of one answer were written before the first of their results was there.
        """
        if ids:
            self.reader.listed = {row for call_id in self.shown for row in self.lists.get(call_id, ())}
        elif fresh:
            self.reader.listed |= {row for rows in self.lists.values() for row in rows}


class Conversations:
    """The model loops of one life, by the name of their turns."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._by_name: dict[str, list[Conversation]] = defaultdict(list)

    def enter(self, store: SqlStore, name: str, branch: str, messages: Sequence[Any]) -> tuple[Conversation, list[Any]]:
        """Return the conversation that a turn belongs to, and which of its messages are new.

        Raises:
            UnstorableValue: a message has no JSON form.
        """
        found = self._find(name, branch, messages)
        count = found.same_prefix(messages)
        went_on = count == len(found.messages)
        fresh = found.take(messages, count)
        if not went_on:
            found.shown = set()
        ids = {call_id for message in (fresh if went_on else found.messages) for call_id in result_ids(plain(message))}
        found.shown |= ids
        if not went_on or ids:
            # Without a single id in what was added, the results are told in words of the program's own.
            kept = {row for call_id in found.shown for row in found.told.get(call_id, ())}
            self._context.lose_memory(found.reader, kept, store.calls.get)
        found.read_lists(ids=bool(ids) or not went_on, fresh=bool(fresh))
        return found, fresh

    def _find(self, name: str, branch: str, messages: Sequence[Any]) -> Conversation:
        known = self._by_name[name]
        here = [item for item in known if item.branch == branch]
        # A task of its own for each turn has another branch each time; a twin that begins alike is no longer than it.
        grown = [item for item in known if item.branch != branch and len(item.messages) < len(messages)]
        for conversation in (*here, *grown):
            if conversation.same_prefix(messages) == len(conversation.messages):
                return conversation
        if here:
            return here[-1]
        known.append(Conversation(branch, self._context.add_reader()))
        return known[-1]


def _digest(before: bytes, message: Any) -> bytes:
    try:
        return hashlib.sha256(before + canonical(plain(message))).digest()
    except Unstorable as problem:
        raise UnstorableValue(f"run.turn: a message: {problem}") from None
