"""One process of a crash test: look at the job's tools, live one life, or answer as a person would."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.testing.child import warm_up
from perdure.testing.crashtest.order import ANSWER, LOOK, RUN_ID, Order

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.policy import Policy
    from perdure.runtime.registry import Registry
    from perdure.testing.crashtest.stand_ins import Values

__all__ = ["obey", "warm_up"]


def obey(members: Mapping[str, Any]) -> int:
    """Do what an order says and return the exit code that the command line would have."""
    from perdure.model.errors import PerdureError
    from perdure.testing.crashtest.stand_ins import Values, write_report

    order = Order.of(members)
    values = Values(json.loads(Path(order.values).read_text("utf-8")))
    try:
        if order.do == LOOK:
            return _look(order, values)
        return _answer(order, values) if order.do == ANSWER else _live(order, values)
    except PerdureError as problem:
        write_report(order.report, {"document": problem.as_document()})
        return problem.exit_code


def _look(order: Order, values: Values) -> int:
    from perdure.config.job_file import open_job
    from perdure.core.policy import evaluate
    from perdure.testing.crashtest.reach import named_in
    from perdure.testing.crashtest.stand_ins import facts_of, write_report

    job, policy = open_job(order.job), policy_of(order)
    main, tools = job_of(order)
    found = [tool for name in tools.names() if (tool := tools.by_name(name)) is not None]
    facts = [asdict(facts_of(tool, evaluate(policy, tool.declaration), values)) for tool in found]
    words = named_in(main, job.folder.resolve())
    named = [tool.name for tool in found if {tool.name, getattr(tool.plain, "__name__", "")} & words]
    write_report(order.report, {"name": job.name, "tools": facts, "named": named})
    return 0


def job_of(order: Order) -> tuple[Callable[..., Any], Registry]:
    """Load the job and return its function and its tools, as far as they are known before it runs.

    Raises:
        SpecError: it cannot be loaded.
    """
    from perdure.config.job_file import open_job
    from perdure.runtime.agent import load_agent
    from perdure.runtime.registry import Registry, tools_of_module

    job = open_job(order.job)
    registry = Registry()
    main = load_agent(job.agent_target, job.folder.resolve())
    for module in job.tools:
        for tool in tools_of_module(module):
            registry.add(tool)
    registry.add_reachable(main)
    return main, registry


def policy_of(order: Order) -> Policy:
    """Return the rules of the job's runs.

    Raises:
        PolicyError: a policy file has errors.
    """
    from perdure.config.job_file import open_job
    from perdure.config.policy_file import load_policy

    return load_policy([*open_job(order.job).policies, *map(Path, order.policies)])


def _live(order: Order, values: Values) -> int:
    from perdure.model.errors import NotFound
    from perdure.runtime.life import Tuning
    from perdure.runtime.report import run_document
    from perdure.testing.crashtest.stand_ins import CrashTestStandIns, leave_with_missing, write_report

    stand_ins = CrashTestStandIns(order, values, leave_with_missing(order.report))
    tuning = Tuning(stand_ins=stand_ins)
    if not order.live:
        # Nothing real is waited for, and each life of an async job that asks would wait out its quiet second.
        tuning = replace(tuning, first_retry_seconds=0.01, quiet_seconds=0.2)
    with _engine(order, tuning) as engine:
        try:
            outcome = engine.resume(RUN_ID) if order.reopens else None
        except NotFound:
            outcome = None  # the crash came before the run was accepted: nobody promised anything yet
        outcome = outcome or engine.run(order.job, order.inputs, run_id=RUN_ID)
        told = {
            "document": run_document(outcome),
            "tools": [asdict(facts) for facts in stand_ins.seen.values()],
        }
    write_report(order.report, told)
    return outcome.exit_code


def _answer(order: Order, values: Values) -> int:
    from perdure.runtime.life import Tuning
    from perdure.testing.crashtest.person import Person
    from perdure.testing.crashtest.stand_ins import write_report

    (_, tools), policy = job_of(order), policy_of(order)
    with _engine(order, Tuning()) as engine:
        answers = Person(order, values, tools, policy, engine).answer()
    write_report(order.report, {"answers": answers})
    return 0


def _engine(order: Order, tuning: Any) -> Engine:
    from perdure.engine import Engine

    folder = Path(order.state_dir)
    return Engine(
        f"sqlite:///{folder / 'runtime_state.db'}",
        policies=order.policies,
        state_dir=folder,
        tuning=tuning,
        command_flags=f"--state-dir {folder}",
        entrypoint="crashtest",
    )
