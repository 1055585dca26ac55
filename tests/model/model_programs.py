"""Small programs with models in them, what each may end in, and the broken rules each of them shows up."""

from collections import Counter

from tests.model.explore import End
from tests.model.programs import BARRED, CARD, LOST, MAIL, PAY, POST, Case, a, b
from tests.model.words import Agent, Call, Gather, Loop, Memo, Program, Step, Tool

FREE = Tool("free", repeat="allow")

you_a, you_b, you_c = (Call(MAIL, text, "you", varies=True) for text in "abc")
same_a, same_b = (Call(MAIL, text, "you") for text in "ab")
me_c = Call(MAIL, "c", "me")
reworded_a, reworded_b = (Call(MAIL, text, varies=True) for text in "ab")


def goals(steps: Loop | tuple[Step, ...], effects: str, crashes: int = 1, unmet: bool = False) -> Case:
    """A reader that understands what it is told: what was meant is done, each as often as meant, and nobody is asked."""
    want = tuple(sorted(effects.split(", ")))
    program = Program((steps,) if isinstance(steps, Loop) else steps)
    return Case(program, holds=lambda end: end.meant == want, crashes=crashes, unmet=unmet)


def at_most(loop: Loop, crashes: int = 1, least: int = 1) -> Case:
    """A reader that gives up or insists in vain: at least so many effects, and none that was not asked for."""
    asked = Counter(f"{goal.tool.name} {goal.args}" for goal in loop.goals)

    def holds(end: End) -> bool:
        return len(end.meant) >= least and Counter(end.meant) <= asked

    return Case(Program((loop,)), holds=holds, crashes=crashes)


def no_more_than_cited(loop: Loop, crashes: int = 1) -> Case:
    """A reader that cites against better knowledge: one effect, and one for each citation, each of another receipt."""
    return Case(Program((loop,)), holds=lambda end: 1 <= len(end.effects) <= 1 + end.cited, crashes=crashes)


def agents(*sides: tuple[Step, ...], varies: bool = False) -> Gather:
    return Gather(tuple((Agent(f"agent {n}", side, varies),) for n, side in enumerate(sides)))


MODEL_CASES: dict[str, Case] = {
    # engine-owned loops
    "loop: two goals": goals(Loop((a, b)), "mail a, mail b", crashes=2),
    "loop: two goals at once": goals(Loop((a, b), batch=2), "mail a, mail b"),
    "loop: three equal goals": goals(Loop((a, a, a)), "mail a, mail a, mail a", crashes=2),
    "loop: equal goals at once": goals(Loop((a, a), batch=2), "mail a, mail a"),
    "loop: probed": goals(Loop((Call(POST, "a"),) * 2), "post a, post a", crashes=2),
    "loop: keyed": goals(Loop((Call(PAY, "a"),) * 2), "pay a, pay a", crashes=2),
    "loop: one scope": goals(Loop((you_a, you_b), batch=2), "mail a, mail b"),
    "loop: declined": Case(Program((Loop((Call(CARD, "1"), a)),)), (("mail a",), ("card 1", "mail a")), crashes=2),
    "loop: history lost": goals(Loop((a, a), forgets="all"), "mail a, mail a", crashes=2),
    "loop: history lost, at once": goals(Loop((a, b), batch=2, forgets="all"), "mail a, mail b"),
    "loop: history lost, reworded": goals(Loop((reworded_a, reworded_b), forgets="all"), "mail a, mail b", crashes=2),
    "loop: history lost, reworded, at once": goals(
        Loop((reworded_a, reworded_a), batch=2, forgets="all"), "mail a, mail a", crashes=2
    ),
    "harness: transcript gone, reworded, at once": goals(
        Loop((reworded_a, reworded_a), "HX", batch=2, transcript="gone"), "mail a, mail a"
    ),
    "loop: history lost, one scope": goals(
        Loop((you_a, you_b, you_c), forgets="all"), "mail a, mail b, mail c", crashes=2
    ),
    "loop: last turn asked again": goals(Loop((you_a, you_b), forgets="turn"), "mail a, mail b", crashes=2),
    "loop: first result lost": goals(Loop((you_a, you_b, you_c), forgets="first"), "mail a, mail b, mail c"),
    "loop: first result lost, forward": goals(
        Loop((you_a, you_b, you_c), forgets="first", reader="forward"), "mail a, mail b, mail c", crashes=2
    ),
    "loop: compacted": goals(Loop((a, a, b), compacts=2), "mail a, mail a, mail b"),
    "loop: compacted, reworded": goals(Loop((reworded_a, reworded_b), compacts=1), "mail a, mail b"),
    "loop: forked": goals(Loop((a, a), forgets="fork"), "mail a, mail a"),
    "loop: stale citation": goals(Loop((same_a, same_b, you_c), reader="stale"), "mail a, mail b, mail c"),
    "loop: hasty": goals(Loop((a, a, b), reader="hasty", batch=2), "mail a, mail a, mail b"),
    "loop: gives up": at_most(Loop((you_a, you_b), reader="gives up", forgets="all"), crashes=2),
    "loop: rewords": at_most(Loop((you_a, you_b), reader="rewords", forgets="all"), crashes=2),
    "loop: stubborn": at_most(Loop((a, a), reader="stubborn", forgets="all"), crashes=2),
    "loop: blind": no_more_than_cited(Loop((you_a, you_a), reader="blind", forgets="all"), crashes=1),
    "loop: nobody can tell": at_most(Loop((Call(LOST, "a", "you", varies=True),), forgets="all"), crashes=2, least=0),
    "loop: forbidden": goals(Loop((Call(BARRED, "a"), a)), "mail a"),
    "loop: one dedupe key": goals(Loop((Call(MAIL, "a", key="K", varies=True), b), forgets="all"), "mail a, mail b"),
    "loop: another scope under one key": at_most(
        Loop((Call(MAIL, "a", "you", key="K"), Call(MAIL, "b", "me", key="K"), Call(MAIL, "c", "me"))), least=2
    ),
    "loop: repeats allowed": goals(Loop((Call(FREE, "a"),) * 2, batch=2), "free a, free a"),
    "loop: history lost, repeats allowed": goals(Loop((Call(FREE, "a"),) * 2, forgets="all"), "free a, free a"),
    "loop beside a call": goals((Gather(((Loop((a,)),), (b,))),), "mail a, mail b"),
    "loop in a memo": goals((Memo("m", (Loop((a, a)),)), a), "mail a, mail a, mail a"),
    # harnesses
    "harness: three equal goals": goals(Loop((a, a, b), "HX", "hasty"), "mail a, mail a, mail b", crashes=2),
    "harness: at once": goals(Loop((a, a), "HX", "hasty", batch=2), "mail a, mail a"),
    "harness: reworded": goals(Loop((reworded_a, reworded_b), "HX", "hasty"), "mail a, mail b", crashes=2),
    "harness: a result lost": goals(Loop((a, a), "HX", "hasty", transcript="lossy"), "mail a, mail a", crashes=2),
    "harness: transcript gone": goals(Loop((a, a), "HX", transcript="gone"), "mail a, mail a", crashes=2),
    "harness: transcript unreadable": goals(
        Loop((a, a), "HX", transcript="unreadable"), "mail a, mail a", crashes=2, unmet=True
    ),
    "harness: sends again under the same id": goals(
        Loop((a, a), "HX", "hasty", resends=True), "mail a, mail a", crashes=2
    ),
    "harness: one scope, result lost": goals(
        Loop((you_a, you_b), "HX", "forward", transcript="lossy"), "mail a, mail b", crashes=2
    ),
    # clients of a relay
    "client: three equal goals": goals(Loop((a, a, b), "MCP"), "mail a, mail a, mail b", unmet=True),
    "client: at once": goals(Loop((a, a), "MCP", batch=2), "mail a, mail a", unmet=True),
    "client: one scope": goals(Loop((you_a, you_b), "MCP"), "mail a, mail b", unmet=True),
    # subagents
    "agent: its own mails": goals((Agent("s", (Loop((a, a)),)), a), "mail a, mail a, mail a"),
    "agent: starts afresh": goals((Agent("s", (Loop((you_a, you_b), forgets="all"),)),), "mail a, mail b", crashes=2),
    "agent: its task reworded": goals(
        (Agent("s", (Loop((you_a, b), forgets="all"),), varies=True),), "mail a, mail b", crashes=2, unmet=True
    ),
    "agents: one scope": goals(
        (agents((Loop((you_a,), forgets="all"),), (Loop((you_b,), forgets="all"),)),), "mail a, mail b"
    ),
    "agents: one errand": goals((agents((Loop((a,)),), (Loop((a,)),)),), "mail a"),
    "agents: reworded": goals(
        (agents((Loop((you_a,), forgets="all"),), (Loop((same_b,), forgets="all"),), varies=True),), "mail a, mail b"
    ),
    "agents of code": goals((agents((a,), (a,)),), "mail a, mail a"),
    "an agent beside a call": goals((Gather(((Agent("s", (Loop((a,)),)),), (b,))),), "mail a, mail b"),
}

# Which program shows that a rule was broken, and after how many crashes.
MODEL_MUTANTS: dict[str, tuple[str, int]] = {
    "call rows not in the turn's transaction": ("loop: two goals", 1),
    "a turn encloses its calls": ("loop: history lost, repeats allowed", 1),
    "a challenge lists only the newest kin": ("loop: history lost, reworded", 1),
    "a challenge does not make seen": ("loop: history lost, one scope", 1),
    "a list is known before it is read": ("loop: history lost, reworded, at once", 1),
    "a listed row is met for everybody": ("loop beside a call", 1),
    "context not renewed at compaction": ("loop: compacted, reworded", 1),
    "a citation passes G2": ("loop: first result lost, forward", 1),
    "a bad citation is told no list": ("loop: stale citation", 1),
    "a row that never started spends its citation": ("loop: last turn asked again", 1),
    "an abandoned row is no kin": ("loop: nobody can tell", 2),
    "adoption without its heading": ("harness: transcript unreadable", 1),
    "a session has seen nothing": ("harness: three equal goals", 1),
    "a session has seen what we delivered": ("harness: a result lost", 1),
    "a session has seen what stood in our checkpoint": ("harness: three equal goals", 1),
    "a new connection forgets all": ("client: one scope", 1),
    "running kin is not waited for": ("agents: one errand", 0),
    "G3 asks only what this context has seen": ("agents: one errand", 0),
    "subagent pool per parent": ("agent: its task reworded", 1),
    "unmet kept per context": ("agents of code", 0),
}

forgetful = Loop((you_a,), "MCP", transcript="forgetful")
