"""The memory of one life: which rows it holds, has seen, or has not met (semantics R0).

Only numbers are kept, never receipts: a run of ten thousand calls is met from an index of ten thousand integers.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import chain
from typing import Concatenate, ParamSpec, TypeVar

from perdure.core.identity import adoptable as adopt
from perdure.model.toolcall import MODEL_NAMESPACE, CallKey, CallRow, CallStatus, UnmetRow

ToolKey = tuple[str, str]
P = ParamSpec("P")
T = TypeVar("T")


def _alone(method: Callable[Concatenate[Context, P], T]) -> Callable[Concatenate[Context, P], T]:
    """Serialise a method: the ledger thread finds rows while the agent's thread hears of their outcomes."""

    @wraps(method)
    def locked(self: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


class Reader:
    """One reader with one memory, a context in the words of R0: ``main`` of a life, or the messages of a model's loop.

    ``seen`` are the rows whose outcome was delivered to it; nothing is seen at its beginning. ``listed`` are those that
    a challenge has told it of: it knows of them, and may cite them, but nobody has asked for them yet, and to any
    other reader they are unmet.
    """

    __slots__ = ("listed", "seen")

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.listed: set[int] = set()

    def knows(self, call_no: int) -> bool:
        """Return whether a row's outcome was delivered to it, or told to it by a challenge."""
        return call_no in self.seen or call_no in self.listed


class Context:
    """Held, seen and unmet rows of one life.

    A row is unmet while no live call holds it and no reader has seen it; ``main`` is the program that is entered anew
    in each life, and every model's loop in it is a reader of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.main = Reader()
        self._readers = [self.main]
        self._held: dict[int, int] = {}
        self._reserved: set[int] = set()
        self._equal: dict[CallKey, dict[int, str]] = defaultdict(dict)
        self._by_branch: dict[tuple[CallKey, str], deque[int]] = defaultdict(deque)
        self._same_tool: dict[ToolKey, dict[int, None]] = defaultdict(dict)
        self._key_of: dict[int, CallKey] = {}
        self._children: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._stand_ins: set[str] = set()

    @_alone
    def load(self, rows: Iterable[CallRow | UnmetRow]) -> None:
        """Take the rows of earlier lives as unmet."""
        enclosed: set[str] = set()
        for row in rows:
            if row.same_as is not None:
                self._stand_ins.add(row.same_as)
            inside = row.parent_call_id in enclosed or (isinstance(row, UnmetRow) and bool(row.under_finished))
            if inside:
                enclosed.add(row.tool_call_id)
            self._add_unmet(row, adoptable=not inside)

    def _add_unmet(self, row: CallRow | UnmetRow, *, adoptable: bool = True) -> None:
        if row.void:
            return
        key = CallKey(row.tool_namespace, row.tool_name, row.args_hash)
        if adoptable:
            # A row inside a finished call is met with that call or not at all: nobody outside may take it.
            self._equal[key][row.call_no] = row.branch
            self._by_branch[key, row.branch].append(row.call_no)
        self._same_tool[key.namespace, key.tool_name][row.call_no] = None
        self._key_of[row.call_no] = key
        if row.parent_call_id is not None:
            self._children[row.parent_call_id].append((row.call_no, row.tool_call_id))

    @_alone
    def add_elsewhere(self, rows: Iterable[CallRow]) -> None:
        """Take effects of the runs behind a fork as unmet; they are kin, and nobody may adopt them (semantics #32)."""
        for row in rows:
            if not self.holds(row.call_no) and not self.seen_by_any(row.call_no):
                self._add_unmet(row, adoptable=False)

    @_alone
    def find_equal(
        self,
        key: CallKey,
        branch: str,
        fetch: Callable[[int], CallRow],
        *,
        cited: str | None = None,
        reader: Reader | None = None,
    ) -> CallRow | None:
        """Return the unmet equal row that a call adopts, or ``None`` (F3).

        Args:
            cited: what the call cites, which it does not mean.
            reader: who asks; what a challenge has told it of is not unmet to it.
        """
        known = (reader or self.main).listed
        rows = self._equal.get(key)
        if not rows:
            return None
        stand_ins = self._stand_ins if cited is None else {*self._stand_ins, cited}
        own = self._by_branch.get((key, branch))
        while own and own[0] not in rows:
            own.popleft()
        for call_no in chain(own or (), rows):
            if call_no in rows and call_no not in known:
                found = adopt([fetch(call_no)], key, branch, stand_ins)
                if found is not None:
                    return found
        return None

    @_alone
    def may_find(self, key: CallKey) -> bool:
        """Return whether some unmet row is equal, without looking at any row."""
        return key in self._equal

    @_alone
    def unmet_of_tool(self, key: CallKey) -> list[int]:
        """Return the numbers of unmet rows of one tool, oldest first."""
        return sorted(self._same_tool.get((key.namespace, key.tool_name), ()))

    @_alone
    def unmet(self) -> Iterator[int]:
        """Yield the numbers of all unmet rows."""
        return iter(tuple(self._key_of))

    @_alone
    def never_told(self) -> list[int]:
        """Return the numbers of the unmet rows that no reader was told of either, oldest first (R5)."""
        return sorted(n for n in self._key_of if not any(n in reader.listed for reader in self._readers))

    @_alone
    def holds(self, call_no: int) -> bool:
        """Return whether a live call of this life minted, adopted or joined the row and has not been answered."""
        return self._held.get(call_no, 0) > 0

    @_alone
    def hold(self, call_no: int) -> None:
        """A live call took the row: it is not unmet any more."""
        if call_no in self._reserved:
            self._reserved.discard(call_no)
        else:
            self._held[call_no] = self._held.get(call_no, 0) + 1
        self._forget(call_no)

    @_alone
    def reserve(self, call_no: int) -> None:
        """A call of a model's turn has adopted the row: it is held until that call is asked for."""
        self.hold(call_no)
        self._reserved.add(call_no)

    @_alone
    def add_reader(self) -> Reader:
        """Return a new reader, who has seen nothing."""
        reader = Reader()
        self._readers.append(reader)
        return reader

    @_alone
    def seen_by_any(self, call_no: int) -> bool:
        """Return whether a reader of this life has seen a row."""
        return any(call_no in reader.seen for reader in self._readers)

    @_alone
    def lose_memory(self, reader: Reader, kept: set[int], fetch: Callable[[int], CallRow]) -> None:
        """A new context begins for a reader: what is not ``kept`` of what it saw is unmet again (R0)."""
        dropped = sorted(reader.seen - kept)
        reader.seen &= kept
        for call_no in dropped:
            if not self.holds(call_no) and not self.seen_by_any(call_no):
                row = fetch(call_no)
                self._add_unmet(row)
                self._put_in_place(row)

    @_alone
    def saw(self, row: CallRow, reader: Reader | None = None) -> None:
        """The row's outcome was delivered; a row that succeeded or failed encloses those made inside it."""
        reader = reader or self.main
        self._drop(row.call_no)
        reader.seen.add(row.call_no)
        self._forget(row.call_no)
        if row.same_as is not None:
            self._stand_ins.add(row.same_as)
        if row.status in (CallStatus.SUCCEEDED, CallStatus.FAILED) and row.tool_namespace != MODEL_NAMESPACE:
            # The calls that a model's turn asks for come after it; each is met when it is asked for itself.
            self._enclose(row.tool_call_id, reader)

    @_alone
    def free(self, row: CallRow) -> None:
        """The row's caller was cancelled: if nobody else holds it, it is unmet again."""
        self._drop(row.call_no)
        if not self.holds(row.call_no) and not self.seen_by_any(row.call_no):
            self._add_unmet(row)
            self._put_in_place(row)

    def _put_in_place(self, row: CallRow) -> None:
        """Let a freed row stand where it stood: of equal rows the oldest is adopted first."""
        key = self._key_of.get(row.call_no)
        if key is not None and key in self._equal:
            self._equal[key] = dict(sorted(self._equal[key].items()))
            self._by_branch[key, row.branch] = deque(sorted(set(self._by_branch[key, row.branch])))

    @_alone
    def met(self, call_no: int, reader: Reader | None = None) -> None:
        """Count a row as met by other means: a person said that another row is the same, or a challenge listed it."""
        (reader or self.main).seen.add(call_no)
        self._forget(call_no)

    def _drop(self, call_no: int) -> None:
        left = self._held.get(call_no, 0) - 1
        if left > 0:
            self._held[call_no] = left
        else:
            self._held.pop(call_no, None)

    def _forget(self, call_no: int) -> None:
        key = self._key_of.pop(call_no, None)
        if key is not None:
            self._forget_equal(key, call_no)
            self._same_tool[key.namespace, key.tool_name].pop(call_no, None)

    def _forget_equal(self, key: CallKey, call_no: int) -> None:
        rows = self._equal.get(key)
        if rows is not None:
            rows.pop(call_no, None)
            if not rows:
                del self._equal[key]

    @_alone
    def moved(self, row: CallRow, parent_call_id: str | None) -> None:
        """A row was adopted by a caller inside another call than the one it was made in."""
        if row.parent_call_id is not None and row.parent_call_id != parent_call_id:
            inside = self._children.get(row.parent_call_id, [])
            self._children[row.parent_call_id] = [item for item in inside if item[0] != row.call_no]

    @_alone
    def release(self, tool_call_id: str) -> list[int]:
        """Let go of the unmet rows under a call that ends in this life: its body did not ask for them, and it must not
        hide them. Return their numbers.

        Under a row that was met nothing is left, but for a model's turn: what its calls have done may not be asked for.
        """
        found: list[int] = []
        stack = [tool_call_id]
        while stack:
            for call_no, inner_id in self._children.pop(stack.pop(), ()):
                if call_no in self._key_of:
                    found.append(call_no)
                else:
                    stack.append(inner_id)
        return found

    def _enclose(self, tool_call_id: str, reader: Reader) -> None:
        stack = [tool_call_id]
        while stack:
            for call_no, inner_id in self._children.pop(stack.pop(), ()):
                reader.seen.add(call_no)
                self._forget(call_no)
                stack.append(inner_id)
