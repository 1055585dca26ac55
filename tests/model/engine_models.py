"""Models for the real engine: a policy over its messages, which it reads as they stand, in words.

It is the same policy as in `readers.py`; what it knows of receipts it has from the texts of results and challenges.
"""

import asyncio
import re
from typing import Any

from tests.model.readers import think
from tests.model.words import Ask, History, Loop, Receipt, Said

LINE = re.compile(r"^- r\.(\d+): (\w+)\((.*)\) was (.*)$")
ARGUMENT = re.compile(r'(\w+)="([^"]*)"')
HEAD = re.compile(r"^\[\w+ was done at \S+, receipt r\.(\d+); nothing was done now\]\n")
RESULT = re.compile(r"^\w+-\d+$")
QUOTED = re.compile(r'"(\w+-\d+)"')


def intent(text: str) -> str:
    """What was meant, however a life, or a stubborn model, worded it."""
    return text.partition("@")[0].partition("'")[0]


class Memory:
    """What a model finds in its messages."""

    def __init__(self, loop: Loop) -> None:
        self.tools = {goal.tool.name: goal.tool for goal in loop.goals}
        self.rows: dict[str, int] = {}  # a provider's ref, and the receipt that was named with it

    def read(self, messages: list[Any]) -> History:
        """Pair each call with what it was told."""
        told = {item["tool_call_id"]: str(item["content"]) for item in messages if item["role"] == "tool"}
        for text in told.values():
            self.note(text)
        asked = [call for item in messages if item["role"] == "assistant" for call in item.get("tool_calls", ())]
        return tuple(self.said(call, told[call["id"]]) for call in asked if call["id"] in told)

    def note(self, text: str) -> None:
        """Remember which receipt stands for which result."""
        head = HEAD.match(text)
        if head:
            self.rows[text[head.end() :]] = int(head[1])
        for line in map(LINE.match, text.splitlines()):
            found = QUOTED.search(line[4]) if line else None
            if line and found:
                self.rows[found[1]] = int(line[1])

    def said(self, call: Any, text: str) -> Said:
        args = call["args"]
        cited = args.get("repeat_of")
        tool = self.tools[call["name"]]
        ask = Ask(tool, args["text"], args.get("to"), intent(args["text"]), cites=int(cited[2:]) if cited else None)
        if text.startswith("Nothing was done by this call"):
            lines = [line for line in map(LINE.match, text.splitlines()) if line]
            return Said(ask, "challenged", listed=tuple(map(receipt, lines)))
        head = HEAD.match(text)
        result = text[head.end() :] if head else text
        if not RESULT.match(result):
            return Said(ask, "failed")
        row = self.rows.get(result, -1 - int(result.partition("-")[2]))
        return Said(ask, "done", Receipt(row, tool.name, ask.scope, ask.intent), bool(head))


def receipt(line: re.Match[str]) -> Receipt:
    """What a line of a challenge names."""
    args = dict(ARGUMENT.findall(line[3]))
    return Receipt(int(line[1]), line[2], args.get("to") or None, intent(args["text"]))


class Conversation:
    """One loop of one life: its messages, what compaction leaves of them, and the model that answers."""

    def __init__(self, loop: Loop, life: int) -> None:
        self.loop, self.life = loop, min(life, 2)
        greeting = f"go, life {life}" if loop.forgets == "all" else "go"
        self.messages: list[Any] = [{"role": "user", "content": greeting}]
        self.compacted = False

    def model(self, messages: list[Any]) -> Any:
        """The model: nothing but a function of its messages and of the life's wording."""
        asks = think(self.loop, Memory(self.loop).read(messages), self.life)
        if not asks:
            return "done"
        calls = [
            {"id": f"c{len(messages)}-{index}-{self.compacted}", "name": ask.tool.name, "args": arguments(ask)}
            for index, ask in enumerate(asks)
        ]
        return {"content": "", "tool_calls": calls}

    def compact(self) -> None:
        """Drop what was said, once, as soon as there is enough of it."""
        results = sum(item["role"] == "tool" for item in self.messages)
        if self.loop.compacts and not self.compacted and results >= self.loop.compacts:
            self.compacted, self.messages = True, [{"role": "user", "content": "what was said was dropped"}]

    def live(self, run: Any) -> None:
        """To its end, one call after another."""
        while True:
            self.compact()
            turn = run.turn("agent", self.model, self.messages)
            self.messages = [*self.messages, *turn.messages]
            if not turn.calls:
                return
            self.messages += turn.result_messages([turn.call(call) for call in turn.calls])

    async def alive(self, run: Any) -> None:
        """To its end, the calls of a turn side by side."""
        while True:
            self.compact()
            turn = await run.turn("agent", self.model, self.messages)
            self.messages = [*self.messages, *turn.messages]
            if not turn.calls:
                return
            results = await asyncio.gather(*(turn.call(call) for call in turn.calls))
            self.messages += turn.result_messages(results)


def arguments(ask: Ask) -> dict[str, str]:
    """A call's arguments as a model writes them."""
    scope = {"to": ask.scope} if ask.scope is not None else {}
    cited = {"repeat_of": f"r.{ask.cites}"} if ask.cites is not None and ask.cites > 0 else {}
    return {"text": ask.args} | scope | cited
