"""A model's loop: its answers are random, it repeats two effects in other words, and then one of them on purpose."""

import asyncio
import json
import os
import re
from typing import Any

from reference import asked, keyed, probed

CITED = re.compile(r'this call of keyed.*"repeat_of": "([^"]+)"', re.DOTALL)


def wish(name: str, inputs: Any, **more: Any) -> dict[str, Any]:
    """One call as a provider writes it."""
    text = os.urandom(4).hex()
    given = {"url": inputs["url"], "what": f"{inputs['tag']}:{name}", "text": text, **more}
    return {"id": f"{name}-{text}", "function": {"name": name, "arguments": json.dumps(given)}}


def answer(inputs: Any, messages: list[Any]) -> dict[str, Any]:
    """What the model says next; nothing but the messages decides which calls it asks for."""
    said = sum(1 for message in messages if message["role"] == "assistant")
    told = [message["content"] for message in messages if message["role"] == "tool"]
    calls: list[dict[str, Any]] = []
    if said == 0:
        calls = [wish(name, inputs) for name in ("keyed", "probed", "asked")]
    elif said == 1:
        calls = [wish("keyed", inputs), wish("probed", inputs)]
    elif said == 2:
        calls = [wish("keyed", inputs, repeat_of=cited[1]) for text in told if (cited := CITED.search(text))]
    return {"content": f"{said} {os.urandom(4).hex()}", "tool_calls": calls}


def main(run: Any) -> int:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        turn = run.turn("agent", lambda given: answer(run.inputs, given), messages, tools=[keyed, probed, asked])
        messages += turn.messages
        if not turn.calls:
            return len(messages)
        messages += turn.results()


def stubborn(run: Any) -> int:
    """A model that cites the first receipt again and again."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(4):
        more = {"repeat_of": f"{run.run_id}.2"} if number else {}
        turn = run.turn("agent", lambda _, more=more: {"tool_calls": [wish("keyed", run.inputs, **more)]}, messages)
        messages += [*turn.messages, *turn.results()]
    return len(messages)


async def main_async(run: Any) -> int:
    async def ask(given: list[Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return answer(run.inputs, given)

    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        turn = await run.turn("agent", ask, messages, tools=[keyed, probed, asked])
        messages += turn.messages
        if not turn.calls:
            return len(messages)
        messages += turn.result_messages(await asyncio.gather(*(turn.call(call) for call in turn.calls)))
