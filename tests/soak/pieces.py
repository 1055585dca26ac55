"""The programs of the soak: those of the crash loops, and random trees."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.crash import programs
from tests.crash.loop import Program
from tests.soak.schedule import Piece

Tree = list[Any]
KIND_OF_TOOL = {
    "keyed_scoped": "keyed", "keyed_open": "keyed", "keyed_briefly": "keyed", "busy": "keyed",
    "probed_scoped": "searchable", "probed_open": "searchable", "probed_by_name": "searchable", "probed_late": "searchable",
    "asked_scoped": "plain", "asked_open": "plain", "signed": "plain",
}  # fmt: skip
PLAIN_TREE = ("keyed_scoped", "keyed_open", "probed_scoped", "probed_open", "asked_scoped", "asked_open")
ENDURING = (*PLAIN_TREE, "keyed_briefly", "busy", "signed")
LAGGING = ("keyed_scoped", "keyed_open", "asked_scoped", "asked_open", "keyed_briefly", "probed_late", "probed_late")
ASYNC_FORMS = ("gather", "group", "step", "memo")
SYNC_FORMS = ("step", "memo", "sequence")
WORDY = ("varied", "deduped")  # one call a name: whether two of them are the same is for a person to say


class Grower:
    """Grows one random tree, and counts the calls in it; few names make many equal calls, also side by side.

    `leaf` is `call` for the agent of `jobs/trees.py`; `send` makes each leaf one of those of `jobs/enduring.py`.
    """

    def __init__(self, draw: random.Random, tools: tuple[str, ...], forms: tuple[str, ...], leaf: str) -> None:
        self._draw = draw
        self.counts: Counter[str] = Counter()
        self._tools, self._forms, self._leaf, self._memos = tools, forms, leaf, 0
        names = [f"n{k}" for k in range(draw.choice([1, 2, 4, 8]))]
        self.tools = {name: draw.choice(tools) for name in names}

    def tree(self, depth: int) -> Tree:
        """A node with at most `depth` levels under it."""
        kinds = ["leaf", "leaf", "sequence", *self._forms] if depth else ["leaf"]
        kind = self._draw.choice(kinds)
        if kind == "leaf":
            return self._call()
        if kind == "thread":
            return [kind, *(self._call() for _ in range(self._draw.randint(1, 3)))]
        if kind in ("step", "memo"):
            self._memos += 1
            return [kind, f"m{self._memos}" if kind == "memo" else "s", self.tree(depth - 1)]
        return [kind, *(self.tree(depth - 1) for _ in range(self._draw.randint(2, 3)))]

    def _call(self) -> Tree:
        if self._leaf == "send" and self._draw.random() < 0.15:
            return ["try", self._wordy()]
        name = self._draw.choice([name for name in self.tools if name[0] == "n"])
        self.counts[name] += 1
        leaf = [self._leaf, self.tools[name], name]
        return leaf if self._leaf == "call" else ["try", leaf]

    def _wordy(self) -> Tree:
        kind = self._draw.choice(WORDY)
        name = f"{kind}{len(self.tools)}"
        self.tools[name] = self._draw.choice([tool for tool in self._tools if tool.endswith("open")])
        self.counts[name] += 1
        return [kind, self.tools[name], name]


def _grown(draw: random.Random, job: str, tools: tuple[str, ...], forms: tuple[str, ...], leaf: str) -> Piece:
    grower = Grower(draw, tools, forms, leaf)
    tree = ["sequence", grower.tree(3), grower.tree(2)]
    kinds = {name: KIND_OF_TOOL[grower.tools[name]] for name in grower.counts}
    asks = {"varied": "challenge", "signed": "approval"}
    said = {*(word.rstrip("0123456789") for word in grower.counts), *(grower.tools[name] for name in grower.counts)}
    program = Program(
        job,
        dict(grower.counts),
        {"tree": tree},
        questions=tuple(kind for word, kind in asks.items() if word in said),
    )
    # 503 tells the busy tool that nothing was done, 500 tells it nothing; all other tools take both for silence.
    return Piece(program, kinds, lags="probed_late" in tools, tolerant=leaf == "send")


def tree(draw: random.Random) -> Piece:
    return _grown(draw, "trees:main", PLAIN_TREE, (*ASYNC_FORMS, "thread"), "call")


def enduring(draw: random.Random) -> Piece:
    return _grown(draw, "enduring:main", ENDURING, ASYNC_FORMS, "send")


def enduring_plain(draw: random.Random) -> Piece:
    return _grown(draw, "enduring:plain", ENDURING, SYNC_FORMS, "send")


def lagging(draw: random.Random) -> Piece:
    job, forms = draw.choice([("enduring:main", ASYNC_FORMS), ("enduring:plain", SYNC_FORMS)])
    return _grown(draw, job, LAGGING, forms, "send")


REFERENCE_KINDS = {"create": "create", "keyed": "keyed", "probed": "searchable", "asked": "plain", "last": "keyed"}
REFERENCE = Piece(programs.REFERENCE, REFERENCE_KINDS)


def _by_tool(make: Callable[[str], Program], *tools: str) -> list[Piece]:
    made = [(make(tool), KIND_OF_TOOL[tool]) for tool in tools]
    return [Piece(program, dict.fromkeys(program.effects, kind)) for program, kind in made]


def _mails(function: str, *tools: str) -> list[Piece]:
    return _by_tool(lambda tool: programs.mails(function, tool), *tools)


NAMED = [
    REFERENCE,
    REFERENCE,
    Piece(programs.REFERENCE_ASYNC, REFERENCE_KINDS),
    Piece(programs.REFERENCE_ASYNC, REFERENCE_KINDS),
    Piece(programs.BY_A_CHILD, {"sent": "searchable", "told": "plain"}, ordinary=False, outlives=True),
    Piece(programs.THREADS, {"thread0": "plain", "thread1": "plain", "called": "plain", "sent": "keyed"}),
    Piece(programs.DECLINED, {"paid": "keyed"}, ordinary=False),
    Piece(programs.RETRIED, {"first": "keyed", "second": "keyed"}, ordinary=False),
    Piece(
        programs.LOST_REPLIES,
        {"keyed_scoped": "keyed", "probed_scoped": "searchable", "asked_scoped": "plain", "keyed_open": "keyed"},
    ),
    Piece(programs.TWO_MINDS, {"right": "keyed"}),
    *_mails("ten", "keyed_scoped", "probed_open", "asked_open"),
    *_mails("ten_side_by_side", "probed_scoped", "asked_scoped"),
    *_mails("reminders", "keyed_scoped", "probed_open", "asked_open"),
    *_mails("twin_reminders", "keyed_open", "probed_open", "asked_scoped"),
    *_by_tool(programs.memo_with_effects, "keyed_open", "asked_scoped"),
    *_by_tool(programs.changed, "keyed_open", "probed_scoped", "asked_open"),
    *_by_tool(programs.deduped, "probed_scoped", "asked_scoped"),
]


def named(draw: random.Random) -> Piece:
    return draw.choice(NAMED)


SOURCES = {named: 8, tree: 5, enduring: 6, enduring_plain: 4, lagging: 2}


def _simple(draw: random.Random) -> Piece:
    """One that a sync agent of the command line can be: its quiet second would make the async ones slow."""
    sync = ("reference:main", "mails:ten", "mails:reminders", "hard:lost_replies", "hard:changed", "hard:retried")
    return draw.choice([piece for piece in NAMED if piece.program.job in sync])


COMMANDS = [_simple, enduring_plain]
