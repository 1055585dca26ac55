"""Where the person of the soak answers: the library, or `perdure resolve`, `approve` and `deny`, which may be killed too."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import perdure
from tests.crash.child import Order
from tests.crash.support import AT_POINT, CRASHED, Ended
from tests.soak.lives import PERDURE, as_process
from tests.soak.stand import Broken, Stand

REFUSED = "refused"
CUT_OFF = "cut off"
VERDICTS = {
    "happened": "--happened",
    "did_not_happen": "--did-not-happen",
    "abandon": "--abandon",
    "another": "--another",
}


class Library:
    """Answers through the library, in this process."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def resolve(self, call: str, says: str, **more: Any) -> str:
        """Settle a call by the arguments of `Engine.resolve`, and return what was said; a refusal says why."""
        try:
            with perdure.open(state_dir=self._state_dir) as engine:
                engine.resolve(call, says, **more)
        except perdure.VerdictRefused as error:
            return f"{REFUSED}: {error}"
        return says

    def approve(self, question: str) -> str:
        """Let a call be sent."""
        with perdure.open(state_dir=self._state_dir) as engine:
            engine.approve(question)
        return "approved"

    def deny(self, question: str) -> str:
        """Refuse a call."""
        with perdure.open(state_dir=self._state_dir) as engine:
            engine.deny(question, reason="not this one")
        return "denied"


@dataclass
class CommandLine:
    """Answers by the command line, in a process of its own.

    Args:
        at_point: the first answer about each question is given by a process that dies at this point; 0 kills none.
        resumes: the answer goes on with the run (`--resume`).
        forked: by the launcher, which starts sooner than an interpreter.
        environ: what every process finds in its environment.
    """

    stand: Stand
    state_dir: Path
    at_point: int = 0
    resumes: bool = False
    forked: bool = True
    environ: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    cut: set[str] = field(default_factory=set)

    def resolve(
        self,
        call: str,
        says: str,
        *,
        result: Any = None,
        ref: str | None = None,
        same_as: str | None = None,
        force: bool = False,
    ) -> str:
        """Settle a call, and return what was said; a refusal says why."""
        verdict = ["--same", same_as] if says == "same" and same_as else [VERDICTS.get(says, "--same")]
        told = ["--result", json.dumps(result)] if result is not None else []
        told += [*(["--ref", ref] if ref else []), *(["--force"] if force else [])]
        return self._give(["resolve", call, *verdict, *told], says)

    def approve(self, question: str) -> str:
        """Let a call be sent."""
        return self._give(["approve", question], "approved")

    def deny(self, question: str) -> str:
        """Refuse a call."""
        return self._give(["deny", question, "--reason", "not this one"], "denied")

    def _give(self, arguments: list[str], says: str) -> str:
        """Give an answer that may be cut off: whoever gave it looks at the inbox again before giving another."""
        about = arguments[1]
        dies = self.at_point and about not in self.cut
        self.cut.add(about)
        ended = self._run(arguments, {AT_POINT: str(self.at_point)} if dies else {})
        if ended.exit_code != CRASHED:
            return self._said(ended, says)
        self.kills += 1
        return f"{CUT_OFF}: {says}"

    @staticmethod
    def _said(ended: Ended, says: str) -> str:
        if ended.exit_code == 2 and "VerdictRefused" not in ended.stderr and '"code"' not in ended.stdout:
            raise Broken(f"an answer was not understood: {ended}")
        document: dict[str, Any] = json.loads(ended.stdout) if ended.stdout.startswith("{") else {}
        if str(document.get("schema", "")).startswith("perdure.error"):
            return f"{REFUSED}: {document['message']}"
        return says

    def _run(self, arguments: list[str], environ: dict[str, str]) -> Ended:
        words = [*arguments, *(["--resume"] if self.resumes else []), "--state-dir", str(self.state_dir), "-o", "json"]
        environ = {**self.environ, **environ}
        if not self.forked:
            return as_process([PERDURE, *words], environ)
        return self.stand.live(Order(str(self.state_dir), "", do="command", inputs={"words": words}), environ)
