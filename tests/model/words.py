"""What a program, a ledger row and the whole durable world are, for the model.

Nothing here knows the engine: the model is written from the rules alone, so that the two can disagree.
"""

from typing import NamedTuple


class Tool(NamedTuple):
    """A provider's tool: what is known of an outcome that was lost depends on its kind."""

    name: str
    kind: str = "asked"  # create · keyed · probed · asked · read
    repeat: str | None = None  # None is the caller's default; allow · challenge
    declines: int = 0  # so many first requests with equal arguments are declined, provably without effect


class Call(NamedTuple):
    """One call. With `varies`, every life words it differently; `intent` is what only a person knows of it."""

    tool: Tool
    args: str
    scope: str | None = None  # the value of the declared scope; None: not declared
    varies: bool = False
    key: str | None = None  # dedupe_key
    label: str | None = None
    cites: str | None = None  # repeat_of: the label of an earlier call


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


Step = Call | Memo | Gather | Try | Timeout | Only | Fail


class Program(NamedTuple):
    """What is run, and how: `session` restores the newest checkpoint, `waits` answers questions while the life goes on."""

    steps: tuple[Step, ...]
    session: bool = False
    waits: bool = False
    no_duplicates: bool = False
    resumes: int = 0  # how often a person resumes it when it failed


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
    shown: tuple[int, ...] = ()  # kin the open question lists
    cited: int | None = None
    key: str | None = None
    cause: int | None = None  # the call inside it whose failure it passed on
    tries: int = 0
    asked: bool = False


class Request(NamedTuple):
    """What reaches a provider."""

    tool: Tool
    args: str
    key: tuple[str, str, int, int]
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
    accepted = before >= request.tool.declines
    return (*log, request._replace(accepted=accepted)), len(log) if accepted else None
