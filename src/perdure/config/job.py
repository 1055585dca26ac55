"""A checked job, whoever wrote it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure.config.inputs import unknown_input
from perdure.model.errors import SpecError
from perdure.model.problem import Problem
from perdure.model.run import RunSpec


@dataclass(frozen=True, slots=True)
class JobFile:
    """A checked job.

    Args:
        agent_kind: what kind of program the agent is; ``python`` in this version.
        agent_target: ``module:function`` or ``file.py:function``, looked for in ``folder``.
        resume: ``reentry`` (from the top, meeting receipts) or ``session``.
        tools: importable modules whose tools are registered.
        policies: overlay files, already relative to the working directory.
        deadline: ISO-8601 UTC with microseconds, or None.
        critic: the function that is asked where a phase ends, as ``agent_target`` is written.
        on_change: ``continue``, ``ask`` or ``stop`` where the program or the rules changed between two lives.
        secrets: where each declared secret comes from.
        path: the job file, or the Python file of a bare target.
        places: the line and column at which some keys have their values in the job file.
    """

    name: str
    agent_kind: str
    agent_target: str
    path: Path
    resume: str = "reentry"
    objective: str = ""
    tools: tuple[str, ...] = ()
    policies: tuple[Path, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constraints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    budgets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    deadline: str | None = None
    stop_conditions: tuple[Any, ...] = ()
    escalation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    artifacts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    critic: str | None = None
    on_change: str | None = None
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]], compare=False, repr=False)

    def problem(self, key: str, text: str) -> Problem:
        """Return a problem that stands where ``key`` has its value; in no file where the job comes from none."""
        return Problem(str(self.path), *self.places[key], text) if key in self.places else Problem("", 0, 0, text)

    def refuse_late(self, now: str) -> None:
        """Refuse a job whose deadline is over before its run has begun.

        Raises:
            SpecError: it is; the run would fail before its agent was entered.
        """
        if self.deadline is not None and self.deadline <= now:
            said = self.problem("deadline", f"deadline: {self.deadline} has passed already; it is {now} now")
            raise SpecError([said], next_command="write a later deadline, or none, and run the same command again")

    @property
    def folder(self) -> Path:
        """The folder that agent and tools are imported from."""
        return self.path.parent

    @property
    def spec(self) -> dict[str, Any]:
        """The run specification as the JSON document that is stored and hashed."""
        return self.run_spec().as_document()

    def run_spec(self) -> RunSpec:
        """Return the immutable specification of a run of this job."""
        return RunSpec(
            name=self.name,
            agent=self.agent_target,
            inputs=self.inputs,
            objective=self.objective,
            constraints=self.constraints,
            budgets=self.budgets,
            deadline=self.deadline,
            stop_conditions=self.stop_conditions,
            escalation=self.escalation,
            artifacts=self.artifacts,
            secrets=self.secrets,
            critic=self.critic,
            on_change=self.on_change,
        )

    def with_inputs(self, given: Mapping[str, Any]) -> JobFile:
        """Return the job with some inputs replaced; to a job that declares none any may be given.

        Raises:
            SpecError: the job declares inputs, and not these.
        """
        problems = [problem for key in given if (problem := unknown_input(key, self.inputs)) is not None]
        if problems:
            raise SpecError([f"{self.path}: {problem}" for problem in problems])
        return replace(self, inputs={**self.inputs, **given})
