"""What a program, a ledger row and the whole durable world are, for the model.

Nothing here knows the engine: the model is written from the rules alone, so that the two can disagree.
"""

from typing import NamedTuple


class Tool(NamedTuple):
    """A provider's tool: what is known of an outcome that was lost depends on its kind."""

    name: str
    kind: str = "asked"  # create · keyed · probed · asked · read
    repeat: str | None = None  # None is the caller's default; allow · challenge · ask
    declines: int = 0  # so many first requests with equal arguments are declined, provably without effect
    refuses: str | None = None  # declines this, whenever it is asked
    denied: bool = False  # a policy forbids it
    gone: bool = False  # a person who is asked what became of it gives up: nobody can tell


class Call(NamedTuple):
    """One call. With `varies`, every life words it differently; `intent` is what only a person knows of it."""

    tool: Tool
    args: str
    scope: str | None = None  # the value of the declared scope; None: not declared
    varies: bool = False
    key: str | None = None  # dedupe_key
    label: str | None = None
    cites: str | None = None  # repeat_of: the label of an earlier call
    manner: str = "wait"  # on_challenge: wait · raise · return


class Memo(NamedTuple):
    """A computation stored once; its body may make calls."""

    name: str
    body: tuple["Step", ...] = ()


class Gather(NamedTuple):
    """Branches that run side by side; the first error, in their order, is raised when all have ended."""

    branches: tuple[tuple["Step", ...], ...]


class Try(NamedTuple):
    """A body whose failed call leads to a fallback."""

    body: tuple["Step", ...]
    fallback: tuple["Step", ...]


class Timeout(NamedTuple):
    """A body whose caller loses patience at any moment, or never, and then does something else."""

    body: tuple["Step", ...]
    fallback: tuple["Step", ...]


class Only(NamedTuple):
    """What the program asks for in these lives only: somebody changed its code."""

    lives: tuple[int, ...]
    body: tuple["Step", ...]


class Fail(NamedTuple):
    """The program's own error."""


class Agent(NamedTuple):
    """A subagent: a call whose work is a body with a memory of its own. With `varies`, every life words its task anew."""

    name: str
    body: tuple["Step", ...] = ()
    varies: bool = False


class Loop(NamedTuple):
    """A model at work: it asks for tools until all its goals are met, as far as its history tells."""

    goals: tuple[Call, ...]
    kind: str = "ML"  # ML: the loop is ours · HX: a harness with a transcript · MCP: a client of a relay
    reader: str = "truthful"  # how it reads what it is told: see readers.py
    batch: int = 1  # how many tools it asks for in one turn
    forgets: str | None = (
        None  # what a new life's history lacks: all · turn · first · fork (all, and in a run of its own)
    )
    compacts: int = 0  # after so many results its history is dropped, once, in the middle of a life
    transcript: str = "kept"  # HX: kept · lossy · gone · unreadable, as a crash may leave it; MCP: kept · forgetful
    resends: bool = False  # HX: after a crash it sends what had no result again, under the same id


Step = Call | Memo | Gather | Try | Timeout | Only | Fail | Agent | Loop


class Program(NamedTuple):
    """What is run, and how: `session` restores the newest checkpoint, `waits` answers questions while the life goes on."""

    steps: tuple[Step, ...]
    session: bool = False
    waits: bool = False
    no_duplicates: bool | None = None
    resumes: int = 0  # how often a person resumes it when it failed


class Ask(NamedTuple):
    """One wish for a tool, as it arrives: what the identity rules look at, and `intent`, which they do not."""

    tool: Tool
    args: str
    scope: str | None = None
    intent: str = ""
    key: str | None = None
    cites: int | None = None
    manner: str = "wait"  # wait · raise · return for a Python agent; tell for a model


class Receipt(NamedTuple):
    """What a model can read of a row that is named to it."""

    row: int
    tool: str
    scope: str | None
    intent: str


class Said(NamedTuple):
    """One entry of a model's history: what it asked for, and what it was told."""

    ask: Ask
    outcome: str = "none"  # none: it was cut off · done · failed · challenged · lost: no row ever stood for it
    receipt: Receipt | None = None
    headed: bool = False  # "done at T, receipt R; nothing was done now"
    listed: tuple[Receipt, ...] = ()  # in a challenge
    right: int | None = None  # what an error about a citation names


History = tuple[Said, ...]


class Row(NamedTuple):
    """One row of the ledger. `intent` and `asked` are for the person and the judge; no rule reads them."""

    tool: Tool
    args: str
    scope: str | None
    branch: tuple[int, ...]
    parent: int | None
    occurrence: int
    intent: str
    status: str = "prepared"
    ref: int | None = None
    same_as: int | None = None
    passed: frozenset[int] = frozenset()  # kin a person let this row, and no other, go past
    shown: tuple[int, ...] = ()  # kin that the open question, or the challenge, lists
    cited: int | None = None
    key: str | None = None
    manner: str = "wait"
    cause: int | None = None  # the call inside it whose failure it passed on
    history: History = ()  # what the model had read when this turn was asked for
    asks: tuple[Ask, ...] = ()  # a turn's receipt
    calls: tuple[int, ...] = ()  # its exact handles: the rows of what it asked for, by index
    handle: tuple[str, int] | None = None  # a harness's own id of this call
    delivered: bool = False  # MCP: the reply was written completely to a live stream
    run: int = 0  # a fork's later rows are another run's
    tries: int = 0
    asked: bool = False


class Request(NamedTuple):
    """What reaches a provider."""

    tool: Tool
    args: str
    key: tuple[object, ...]
    intent: str
    wanted: bool = True  # a live call asked for it, or it settles what had been started
    accepted: bool = True


class World(NamedTuple):
    """All that outlives a process: the ledger, the providers, and what is still under way between them."""

    rows: tuple[Row, ...] = ()
    log: tuple[Request, ...] = ()
    visible: int = 0  # what a search finds: effects up to here
    late: tuple[Request, ...] = ()  # left a dead sender, has not arrived
    life: int = 0
    begin: int = 0  # the step a restored program goes on with
    base: frozenset[int] = frozenset()  # rows delivered before the newest checkpoint
    released: frozenset[int] = frozenset()  # only a mutant fills this
    transcript: History = ()  # a harness's or a client's own memory, which is not ours
    readable: bool = True  # whether we can read it
    ended_by: int | None = None
    challenges: int = 0
    resumes: int = 0


def arrive(log: tuple[Request, ...], request: Request) -> tuple[tuple[Request, ...], int | None]:
    """The provider receives a request: its log afterwards, and the effect's ref, or None if it declined."""
    for ref, earlier in enumerate(log):
        same = earlier.tool == request.tool and earlier.accepted
        if same and request.tool.kind == "create" and earlier.args == request.args:
            return log, ref
        if same and request.tool.kind == "keyed" and earlier.key == request.key:
            return log, ref
    before = sum(1 for earlier in log if (earlier.tool, earlier.args) == (request.tool, request.args))
    accepted = before >= request.tool.declines and request.args != request.tool.refuses
    return (*log, request._replace(accepted=accepted)), len(log) if accepted else None
