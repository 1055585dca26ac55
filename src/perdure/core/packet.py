"""The resume packet: what a program, or a model in it, has to know to go on with a run (R113, R118).

A pure rendering of a frozen view. Its size is bounded: the newest calls and files only, each in short, however long
the run has become.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core.summary import CallLine, LifeLine, file_markdown, inline, section
from perdure.model.artifact import CheckedArtifact

_SETTLED = ("succeeded", "failed", "cancelled", "abandoned")


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """The newest checkpoint, and the step at whose boundary it was written."""

    checkpoint_id: str
    kind: str
    created_at: str
    step_id: str
    step_name: str
    phase: str
    step_index: int


@dataclass(frozen=True, slots=True)
class ResumePacket:
    """What is known of a run as one of its lives begins; ``str(packet)`` is the Markdown page.

    Args:
        attempt: the number of the life that begins, from 2.
        lives: the newest earlier ones, oldest first.
        rows: how many rows the run has in all, memos and turns included.
        done: the newest calls that have their outcome, oldest first.
        settled: what an earlier life had started and this one has settled, or could not.
        open: what is prepared, awaits an answer or is in doubt.
        files: the newest artifacts, and what a look at them said.
        files_in_all: how many there are.
        changes: what is not as it was when the run was last driven, a sentence each.
        budgets: what is left of each budget, a sentence each.
    """

    run_id: str
    name: str
    objective: str
    attempt: int
    workspace: str
    lives: tuple[LifeLine, ...] = ()
    checkpoint: CheckpointLine | None = None
    rows: int = 0
    done: tuple[CallLine, ...] = ()
    settled: tuple[CallLine, ...] = ()
    open: tuple[CallLine, ...] = ()
    files: tuple[CheckedArtifact, ...] = ()
    files_in_all: int = 0
    changes: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._calls(), *self._rest()]) + "\n"

    def _head(self) -> list[str]:
        at = self.checkpoint
        facts = [
            f"- run {inline(self.run_id)} ({self.name}), life {self.attempt}",
            *([f"- objective: {inline(self.objective)}"] if self.objective else []),
            f"- workspace: {inline(self.workspace)}",
            *([f"- checkpoint `{at.checkpoint_id}` ({at.kind}, {at.created_at})"] if at else []),
            *([f"- step {at.step_index}: {inline(at.step_name)}, phase {inline(at.phase)}"] if at else []),
        ]
        return [f"# Resume packet of {self.run_id}", "", *facts, *section("Earlier lives", map(_life, self.lives))]

    def _calls(self) -> list[str]:
        said = "perdure calls ls " + self.run_id
        rest = max(0, self.rows - len(self.done) - len(self.open))
        return [
            *section("In flight when the last life ended, handled first", map(_call, self.settled)),
            *section("Done (newest calls)", map(_call, self.done), left_out=rest, more=said),
            *section("Open", map(_call, self.open)),
        ]

    def _rest(self) -> list[str]:
        left_out = self.files_in_all - len(self.files)
        return [
            *section("Artifacts", map(file_markdown, self.files), left_out=left_out),
            *section("Changed since the run was last driven", [f"- {text}" for text in self.changes]),
            *section("Left of the budgets", [f"- {text}" for text in self.budgets]),
        ]

    @property
    def replay_note(self) -> str:
        """What to append to a model's continuation prompt, so that it does not do again what was done."""
        settled = [_call(line) for line in self.settled if line.status in _SETTLED]
        effects = [_call(line) for line in self.done if line.side_effect_class in ("external", "memory")]
        open_ones = [_call(line) for line in self.open]
        return "\n".join(
            [
                f"This job was interrupted and now goes on (run {self.run_id}, life {self.attempt}).",
                *_told("These calls were in flight, and have been settled for you; do not make them again:", settled),
                *_told("These effects have happened already; do not repeat them:", effects),
                *_told("These are not done yet; each is sent when it is asked for again, or answered:", open_ones),
                "Every finished call keeps its receipt: asking for it again returns the receipt and does nothing.",
            ]
        )


def _told(heading: str, lines: Sequence[str]) -> list[str]:
    return [heading, *lines] if lines else []


def _call(line: CallLine) -> str:
    return line.as_markdown()


def _life(line: LifeLine) -> str:
    return line.as_markdown()
