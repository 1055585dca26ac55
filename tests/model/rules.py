"""Identity and guard (R0 to R6, F1 to F4, G1 to G3) for every kind of caller, as pure functions over rows.

Each rule can be broken by naming it in `broken`: those are the mutants the tests must catch.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Protocol

from tests.model.words import Ask, Row, Tool, World, arrive

OVER = {"succeeded", "failed", "cancelled", "abandoned", "challenged"}
MEMO = Tool("memo", "memo")
AGENT = Tool("agent", "memo")
TURN = Tool("turn", "memo")


class Conflict(Exception):
    """A `dedupe_key` that belongs to an effect of another scope."""


def effectful(row: Row) -> bool:
    """External or memory: everything but a memo, a model's turn, a subagent and a read."""
    return row.tool.kind not in ("memo", "read")


def void(row: Row) -> bool:
    """A row that provably did nothing and that nobody may meet."""
    return (row.status == "cancelled" and row.same_as is None) or row.status == "challenged"


def did(row: Row) -> bool:
    """Something was, or may have been, done under this row."""
    return effectful(row) and row.status in ("succeeded", "abandoned")


class Reader:
    """A context (R0): one reader with one memory."""

    def __init__(self, kind: str = "FA", seen: Iterable[int] = (), listed: Iterable[int] = ()) -> None:
        self.kind = kind
        self.seen = set(seen)  # delivered to it, or under what was
        self.listed = set(listed)  # a challenge named it: this reader knows, nobody has asked for it
        self.unread: set[int] = set()  # named to it since it last asked for anything
        self.forgotten: frozenset[int] = frozenset()  # MCP: an earlier connection was told
        self.agent: int | None = None  # the call whose body it is
        self.run = 0

    def read(self) -> None:
        """It reads what challenges have named to it; what it asks for from now on, it asks for knowingly."""
        self.listed |= self.unread


class Caller(Protocol):
    """Who waits for a row."""

    reader: Reader


class Ledger:
    """The rows, and one life's memory of them: who holds what, and who has seen what."""

    def __init__(self, world: World, broken: frozenset[str], no_duplicates: bool | None = None) -> None:
        self.rows = list(world.rows)
        self.released = world.released
        self.broken = broken
        self.no_duplicates = no_duplicates
        self.held: dict[int, set[Caller]] = defaultdict(set)
        self.readers: list[Reader] = []

    def change(self, number: int, **fields: Any) -> None:
        """Write one row."""
        self.rows[number] = self.rows[number]._replace(**fields)

    def open(self, reader: Reader, instead_of: Reader | None = None) -> Reader:
        """A context begins; one that it takes the place of is over."""
        if instead_of is not None:
            self.readers.remove(instead_of)
        self.readers.append(reader)
        return reader

    # R0
    def unmet(self, number: int, who: Reader | None = None) -> bool:
        """A row of the lineage that no live call holds and nobody has seen, and that was not listed to this reader."""
        row = self.rows[number]
        if void(row) or number in self.released or (self.held[number] and "no held" not in self.broken):
            return False
        if who is None or "a listed row is met for everybody" in self.broken:
            return all(number not in reader.seen | reader.listed | reader.unread for reader in self.readers)
        if "subagent pool per parent" in self.broken and row.parent != who.agent:
            return False
        readers = [who] if "unmet kept per context" in self.broken else self.readers
        known = any(number in reader.seen for reader in readers)
        return not known and number not in who.listed and number not in who.forgotten

    def inside(self, number: int) -> list[int]:
        """The rows under a call, at any depth."""
        found = [n for n, row in enumerate(self.rows) if row.parent == number]
        return found + [deeper for n in found for deeper in self.inside(n)]

    def meet(self, number: int, caller: Caller) -> None:
        """A live call minted, adopted or joined the row."""
        self.held[number].add(caller)
        row = self.rows[number]
        if row.same_as is not None:
            caller.reader.seen.add(row.same_as)
        if row.status in ("succeeded", "failed") and "memo does not enclose" not in self.broken:
            caller.reader.seen.update(self.inside(number))

    def let_go(self, number: int) -> None:
        """A call ends: what an earlier, cut-off run of it did and this one did not ask for is not its own any more."""
        for n in self.inside(number):
            if self.unmet(n) and "a finished call keeps what it did not meet" not in self.broken:
                self.change(n, parent=self.rows[number].parent)

    def release(self, number: int, caller: Caller, delivered: bool) -> None:
        """The caller has its value, or was cancelled before there was one."""
        self.held[number].discard(caller)
        if delivered:
            caller.reader.seen.add(number)
            self.meet(number, caller)  # what lies under it is met with it
            self.held[number].discard(caller)
            told = caller.reader.kind != "FA" and self.rows[number].status == "challenged"
            if told and "a challenge does not make seen" not in self.broken:
                caller.reader.unread.update(self.rows[number].shown)
            if "a list is known before it is read" in self.broken:
                caller.reader.read()

    # R1
    def kin(self, number: int, who: Reader) -> list[int]:
        """Other rows that may be this very effect: by scope if it is declared, else the whole tool while unmet."""
        row = self.rows[number]

        def related(n: int, other: Row) -> bool:
            if n == number or other.tool != row.tool or n in who.forgotten:
                return False
            if row.scope is not None:
                return other.scope == row.scope
            return other.args == row.args or self.unmet(n, who)

        return [n for n, other in enumerate(self.rows) if related(n, other)]

    # R2a
    def find(
        self, ask: Ask, branch: tuple[int, ...], parent: int | None, who: Reader, handle: tuple[str, int] | None = None
    ) -> int:
        """The row of a call: F1 to F4. (The handle of a model's turn stands in the turn's own row.)"""
        found = self.keyed(ask)
        if found is None and handle is not None:
            found = next((n for n, row in enumerate(self.rows) if row.handle == handle), None)
        if found is not None:
            return found
        equal = [n for n, r in enumerate(self.rows) if (r.tool, r.args, r.scope) == (ask.tool, ask.args, ask.scope)]
        free = [n for n in equal if self.unmet(n, who) and self.adoptable(n, who)]
        if free:
            found = next((n for n in free if self.rows[n].branch == branch), free[0])
            if "adoption leaves a row where it was" not in self.broken:
                self.change(found, parent=parent, branch=branch)
            self.change(found, manner=ask.manner, handle=handle or self.rows[found].handle)
            return found
        if self.no_duplicates and ask.tool.kind not in ("memo", "read"):
            joined = [n for n in equal if self.rows[n].status != "failed" and not void(self.rows[n])]
            if "only what is seen is joined" in self.broken:
                joined = [n for n in joined if not self.held[n]]
            if joined:
                return joined[0]
        return self.mint(ask, branch, parent, who, handle)

    def keyed(self, ask: Ask) -> int | None:
        """F1: the first row with this `dedupe_key`, whatever its arguments."""
        if ask.key is None:
            return None
        for n, row in enumerate(self.rows):
            if row.key == ask.key and (not void(row) or "void row found by dedupe_key" in self.broken):
                if (row.tool, row.scope) != (ask.tool, ask.scope) and "a key of another scope joins" not in self.broken:
                    raise Conflict
                return n
        return None

    def mint(
        self, ask: Ask, branch: tuple[int, ...], parent: int | None, who: Reader, handle: tuple[str, int] | None = None
    ) -> int:
        """F4. What a policy forbids is failed from the start."""
        equal = [r for r in self.rows if (r.tool, r.args, r.scope, r.run) == (ask.tool, ask.args, ask.scope, who.run)]
        row = Row(ask.tool, ask.args, ask.scope, branch, parent, 1 + len(equal), ask.intent)
        row = row._replace(cited=ask.cites, key=ask.key, manner=ask.manner, handle=handle, run=who.run)
        self.rows.append(row._replace(status="failed") if ask.tool.denied else row)
        return len(self.rows) - 1

    def adoptable(self, number: int, who: Reader) -> bool:
        """No other row stands for this one, it is not another run's, and it lies under no finished call."""
        if self.rows[number].run != who.run:
            return False
        return all(row.same_as != number for row in self.rows) and not self.enclosed(number)

    def enclosed(self, number: int) -> bool:
        """Whether a call above this row has ended: what lies under that is met with it or not at all."""
        above = self.rows[number].parent
        if above is None or "adopted from under a finished call" in self.broken:
            return False
        return self.rows[above].status in ("succeeded", "failed") or self.enclosed(above)

    # R2b
    def guard(self, number: int, who: Reader) -> str:
        """Whether a prepared row may start: go, wait (G1), park or refuse (G2), ask or refuse (G3)."""
        row = self.rows[number]
        if not effectful(row):
            return "go"
        if self.must_wait(number, who):
            return "wait"
        unmet, others = self.against(number, who)
        repeat = "allow" if self.no_duplicates is False else row.tool.repeat
        by_model = who.kind != "FA"
        if repeat == "allow":
            return "go"
        if unmet and not (row.cited is not None and "a citation passes G2" in self.broken):
            return "refuse" if by_model else "ask" if "challenge at once" in self.broken else "park"
        if row.cited is not None:
            return "go" if self.citation_holds(number, others, who) else "refuse"
        if not others or (repeat is None and not by_model):
            return "go"
        return "ask" if repeat == "ask" or row.manner == "wait" else "refuse"

    def must_wait(self, number: int, who: Reader) -> bool:
        """G1, and no effect starts while one of the run is in doubt, or is running for nobody."""
        rows = [(n, row) for n, row in enumerate(self.rows) if effectful(row) and n != number]
        if any(row.status == "in_doubt" or (row.status == "running" and not self.held[n]) for n, row in rows):
            return True
        if who.kind == "FA" or "running kin is not waited for" in self.broken:
            return False
        kin = self.kin(number, who)
        return any(row.status == "running" and n in kin for n, row in rows)

    def against(self, number: int, who: Reader) -> tuple[list[int], list[int]]:
        """The kin that speak against a start: the unmet ones, and those seen, or held by another call."""
        passed = self.rows[number].passed
        kin = [n for n in self.kin(number, who) if n not in passed and did(self.rows[n])]
        if "an abandoned row is no kin" in self.broken:
            kin = [n for n in kin if self.rows[n].status != "abandoned"]
        unmet = [n for n in kin if self.unmet(n, who)]
        readers = [who] if "G3 asks only what this context has seen" in self.broken else self.readers
        seen = [n for n in kin if n not in unmet and any(n in r.seen | r.listed for r in readers)]
        held = [n for n in kin if n not in unmet and self.held[n]] if who.kind != "FA" else []
        return unmet, sorted({*seen, *held})

    def citation_holds(self, number: int, kin: list[int], who: Reader) -> bool:
        """`repeat_of` names the newest kin, seen here and cited by nobody else."""
        cited = self.rows[number].cited
        if "citation of a non-newest kin" in self.broken:
            return cited in kin
        taken = any(n != number and row.cited == cited and self.spent(row) for n, row in enumerate(self.rows))
        return bool(kin) and cited == max(kin) and cited in who.seen | who.listed and not taken

    def spent(self, row: Row) -> bool:
        """Whether a citation of this row is used up: what never started, or came to nothing, has used up none."""
        if "a citation allowed twice" in self.broken:
            return False
        if "a row that never started spends its citation" in self.broken:
            return row.status != "failed"
        if "a failed row spends its citation" in self.broken:
            return not void(row)
        return row.status in ("running", "in_doubt", "succeeded", "abandoned")

    def question(self, number: int, who: Reader, status: str) -> None:
        """The challenge, written down: it lists all unmet kin at once; where all are met, those it repeats."""
        unmet, others = self.against(number, who)
        shown = unmet or others
        if "a challenge lists only the newest kin" in self.broken:
            who.listed.update(shown)
            shown = shown[-1:]
        if "a bad citation is told no list" in self.broken and self.rows[number].cited is not None:
            shown = []
        self.change(number, status=status, shown=tuple(shown))

    def verdict(self, number: int) -> None:
        """A person who knows what was meant says *same as R* or *another*; it binds this row and these kin."""
        row = self.rows[number]
        same = [n for n in row.shown if self.rows[n].intent == row.intent]
        if "a verdict that outlives its pair" in self.broken:
            self.released |= set(row.shown)
        if same:
            self.change(number, status="cancelled", same_as=same[-1])
            for caller in self.held[number]:
                caller.reader.seen.add(same[-1])
        else:
            self.change(number, status="prepared", passed=row.passed | set(row.shown), shown=())

    # R6
    def owned(self, ref: int, number: int) -> bool:
        """Whether the effect already belongs to another call's receipt."""
        tool = self.rows[number].tool
        return any(r.ref == ref and r.tool == tool and r.status == "succeeded" for r in self.rows)

    def evidence(self, number: int, found: list[int], person: bool) -> str:
        """What a search by arguments proves of a call in doubt: yes, no or unknown.

        A search names the newest effect it finds. A person compares the provider's list with all receipts.
        """
        fresh = [ref for ref in found if not self.owned(ref, number)]
        if "probe without ref" in self.broken and not person and found:
            self.change(number, status="succeeded", ref=found[-1])
            return "yes"
        if not found or (person and not fresh):
            self.change(number, status="prepared")
            return "no"
        if person or found[-1] in fresh:
            self.change(number, status="succeeded", ref=fresh[-1])
            return "yes"
        return "unknown"


def quarantine(world: World) -> World:
    """The old sender is dead and the probe's lag has passed: what was under way has arrived and can be found."""
    log = world.log
    for request in world.late:
        log, _ = arrive(log, request)
    return world._replace(log=log, late=(), visible=len(log))


def matches(world: World, row: Row) -> list[int]:
    """The effects a search by tool and arguments finds."""
    return [
        ref
        for ref, r in enumerate(world.log[: world.visible])
        if r.accepted and (r.tool, r.args) == (row.tool, row.args)
    ]
