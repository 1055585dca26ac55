"""Identity and guard (R0 to R6, F1 to F4, G1 to G3) for a Python agent, as pure functions over rows.

Each rule can be broken by naming it in `broken`: those are the mutants the tests must catch.
"""

from collections import defaultdict
from typing import Any

from tests.model.words import Call, Row, Tool, World, arrive

OVER = {"succeeded", "failed", "cancelled", "abandoned"}
MEMO = Tool("memo", "memo")


def effectful(row: Row) -> bool:
    """External or memory: everything but a memo and a read."""
    return row.tool.kind not in ("memo", "read")


def void(row: Row) -> bool:
    """A row that provably did nothing and that nobody may meet."""
    return (row.status == "cancelled" and row.same_as is None) or row.status == "challenged"


def did(row: Row) -> bool:
    """Something was, or may have been, done under this row."""
    return effectful(row) and row.status in ("succeeded", "abandoned")


class Context:
    """One life's memory of a ledger: what its live calls hold and what it has seen."""

    def __init__(self, world: World, broken: frozenset[str], no_duplicates: bool = False) -> None:
        self.rows = list(world.rows)
        self.released = world.released
        self.broken = broken
        self.no_duplicates = no_duplicates
        self.held: dict[int, set[object]] = defaultdict(set)
        self.seen: set[int] = set()

    def change(self, number: int, **fields: Any) -> None:
        """Write one row."""
        self.rows[number] = self.rows[number]._replace(**fields)

    # R0
    def unmet(self, number: int) -> bool:
        """A row of the lineage that no live call holds and nobody has seen."""
        held = bool(self.held[number]) and "no held" not in self.broken
        return not held and number not in self.seen and not void(self.rows[number]) and number not in self.released

    def inside(self, number: int) -> list[int]:
        """The rows under a call, at any depth."""
        found = [n for n, row in enumerate(self.rows) if row.parent == number]
        return found + [deeper for n in found for deeper in self.inside(n)]

    def meet(self, number: int, caller: object) -> None:
        """A live call minted, adopted or joined the row."""
        self.held[number].add(caller)
        row = self.rows[number]
        if row.same_as is not None:
            self.seen.add(row.same_as)
        if row.status in ("succeeded", "failed") and "memo does not enclose" not in self.broken:
            self.seen.update(self.inside(number))

    def let_go(self, number: int) -> None:
        """A call ends: what an earlier, cut-off run of it did and this one did not ask for is not its own any more."""
        for n in self.inside(number):
            if self.unmet(n) and "a finished call keeps what it did not meet" not in self.broken:
                self.change(n, parent=self.rows[number].parent)

    def release(self, number: int, caller: object, delivered: bool) -> None:
        """The caller has its value, or was cancelled before there was one."""
        self.held[number].discard(caller)
        if delivered:
            self.seen.add(number)
            self.meet(number, caller)  # what lies under it is met with it
            self.held[number].discard(caller)

    # R1
    def kin(self, number: int) -> list[int]:
        """Other rows that may be this very effect: by scope if it is declared, else the whole tool while unmet."""
        row = self.rows[number]

        def related(n: int, other: Row) -> bool:
            if row.scope is not None:
                return other.scope == row.scope
            return other.args == row.args or self.unmet(n)

        return [n for n, r in enumerate(self.rows) if n != number and r.tool == row.tool and related(n, r)]

    # R2a
    def find(self, call: Call, args: str, branch: tuple[int, ...], parent: int | None, cited: int | None) -> int:
        """The row of a call: F1, F3, F3b, F4 (Python agents have no exact handles)."""
        if call.key is not None:
            for n, row in enumerate(self.rows):
                if row.key == call.key and (not void(row) or "void row found by dedupe_key" in self.broken):
                    return n
        equal = [n for n, r in enumerate(self.rows) if (r.tool, r.args, r.scope) == (call.tool, args, call.scope)]
        free = [n for n in equal if self.unmet(n) and self.adoptable(n)]
        if free:
            found = next((n for n in free if self.rows[n].branch == branch), free[0])
            if "adoption leaves a row where it was" not in self.broken:
                self.change(found, parent=parent, branch=branch)
            return found
        if self.no_duplicates and call.tool.kind not in ("memo", "read"):
            joined = [n for n in equal if self.rows[n].status != "failed" and not void(self.rows[n])]
            if joined:
                return joined[0]
        row = Row(call.tool, args, call.scope, branch, parent, 1 + len(equal), call.args, cited=cited, key=call.key)
        self.rows.append(row)
        return len(self.rows) - 1

    def adoptable(self, number: int) -> bool:
        """No other row stands for this one, and no finished call: what lies under that is met with it or not at all."""
        return all(row.same_as != number for row in self.rows) and not self.enclosed(number)

    def enclosed(self, number: int) -> bool:
        """Whether a call above this row has ended."""
        above = self.rows[number].parent
        if above is None or "adopted from under a finished call" in self.broken:
            return False
        return self.rows[above].status in ("succeeded", "failed") or self.enclosed(above)

    # R2b
    def guard(self, number: int) -> str:
        """Whether a prepared row may start: go, wait (G1), park (G2), ask or refuse (G3)."""
        row = self.rows[number]
        if not effectful(row):
            return "go"
        for n, other in enumerate(self.rows):
            if effectful(other) and other.status == "in_doubt":
                return "wait"
            if effectful(other) and other.status == "running" and not self.held[n]:
                return "wait"
        kin = [n for n in self.kin(number) if did(self.rows[n]) and n not in row.passed]
        if row.tool.repeat != "allow" and any(self.unmet(n) for n in kin):
            return "ask" if "challenge at once" in self.broken else "park"
        if row.tool.repeat != "challenge" or not kin:
            return "go"
        if row.cited is None:
            return "ask"
        return "go" if self.citation_holds(number, kin) else "refuse"

    def citation_holds(self, number: int, kin: list[int]) -> bool:
        """`repeat_of` names the newest kin, seen here and cited by nobody else."""
        cited = self.rows[number].cited
        if "citation of a non-newest kin" in self.broken:
            return cited in kin
        taken = any(n != number and r.cited == cited and not void(r) for n, r in enumerate(self.rows))
        return cited == max(kin) and cited in self.seen and not taken

    def question(self, number: int) -> None:
        """The challenge, written down: it lists all unmet kin at once; where all are met, those it repeats."""
        kin = [n for n in self.kin(number) if did(self.rows[n]) and n not in self.rows[number].passed]
        unmet = [n for n in kin if self.unmet(n)]
        self.change(number, status="awaiting_approval", shown=tuple(unmet or kin))

    def verdict(self, number: int) -> None:
        """A person who knows what was meant says *same as R* or *another*; it binds this row and these kin."""
        row = self.rows[number]
        same = [n for n in row.shown if self.rows[n].intent == row.intent]
        if "a verdict that outlives its pair" in self.broken:
            self.released |= set(row.shown)
        if same:
            self.change(number, status="cancelled", same_as=same[-1])
            self.seen.add(same[-1])
        else:
            self.change(number, status="prepared", passed=row.passed | set(row.shown))

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
