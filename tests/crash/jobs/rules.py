"""Small agents that each stand on one rule; with the rule broken, the provider counts wrongly or a person is asked."""

import asyncio
from typing import Any

from reference import NoAnswer, answered, read

from perdure import CallContext, Probe, ToolFailed, tool
from perdure.testing.provider.request import get, post


def _sent(url: str, what: str, text: str = "x", marker: str = "") -> dict[str, Any]:
    return answered(post(f"{url}/searchable", {"marker": marker or what, "what": what, "text": text}), 201)


def _found(call: CallContext, marker: str) -> Probe:
    status, body = get(f"{call.args['url']}/search?marker={marker}")
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in body["items"]:
        return Probe.happened({"id": item["id"]}, ref=item["id"])
    return Probe.not_happened(complete=body["next_page"] is None)


@tool(side_effect_class="external", scope=["what"])
def plain(url: str, what: str, text: str = "x") -> dict[str, Any]:
    """No probe and no key: only a person can tell."""
    return answered(post(f"{url}/plain", {"what": what, "text": text}), 201)


@tool(side_effect_class="external")
def unscoped(url: str, what: str, text: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what, "text": text}), 201)


@tool
def unclassified(url: str, what: str) -> dict[str, Any]:
    """Nothing declared: it counts as external."""
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], timeout="50ms")
def impatient(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], probe_lag="1500ms")
def lagging(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """The provider's search is behind, by less than the lag says."""
    return _sent(url, what, marker=call.idempotency_key)


@lagging.probe
def find_lagging(call: CallContext) -> Probe:
    return _found(call, call.idempotency_key)


@tool(side_effect_class="external", scope=["what"], probe_lag="0s")
async def searched_by_name(url: str, what: str) -> dict[str, Any]:
    return await asyncio.to_thread(_sent, url, what)


@searched_by_name.probe
def find_by_name(call: CallContext) -> Probe:
    return _found(call, str(call.args["what"]))


@tool(side_effect_class="external", scope=["what"], probe_lag="0s")
def with_reference(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """It keeps the provider's reference with its receipt."""
    reply = _sent(url, what)
    call.record(reply["id"])
    return reply


@with_reference.probe
def find_with_reference(call: CallContext) -> Probe:
    return _found(call, str(call.args["what"]))


@tool(side_effect_class="external", scope=["what"], key_ttl="100ms")
def shortly_keyed(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    """The provider forgets its keys soon."""
    return answered(post(f"{url}/keyed?ttl=0.1", {"what": what}, {"Idempotency-Key": call.idempotency_key}), 201)


# --- agents --------------------------------------------------------------------------------------------------


def out_of_time(run: Any) -> str:
    return str(impatient(run.inputs["url"], f"{run.inputs['tag']}:slow")["id"])


def behind(run: Any) -> str:
    return str(lagging(run.inputs["url"], f"{run.inputs['tag']}:sent")["id"])


async def twins(run: Any) -> list[str]:
    what = f"{run.inputs['tag']}:reminder"
    both = await asyncio.gather(*(searched_by_name(run.inputs["url"], what) for _ in range(2)))
    return [one["id"] for one in both]


def reminders(run: Any) -> list[str]:
    return [with_reference(run.inputs["url"], f"{run.inputs['tag']}:reminder")["id"] for _ in range(2)]


def forgotten_key(run: Any) -> str:
    return str(shortly_keyed(run.inputs["url"], f"{run.inputs['tag']}:paid")["id"])


def one(run: Any) -> str:
    return str(plain(run.inputs["url"], f"{run.inputs['tag']}:one")["id"])


def nobody_knows(run: Any) -> str:
    return str(unclassified(run.inputs["url"], f"{run.inputs['tag']}:sent")["id"])


def one_key(run: Any) -> str:
    return str(run.call(plain, run.inputs["url"], f"{run.inputs['tag']}:mail", run.run_id, dedupe_key="mail")["id"])


async def beside_a_doubt(run: Any) -> None:
    """The second branch reads while the first one's outcome is lost, and then wants to send something."""
    url, tag = run.inputs["url"], run.inputs["tag"]

    async def other() -> None:
        await run.call(read, url, f"{tag}:look")
        await run.call(plain, url, f"{tag}:other")

    await asyncio.gather(run.call(plain, url, f"{tag}:lost"), other())


async def out_of_patience(run: Any) -> str:
    """The caller waits less long than the send takes."""
    sent = await asyncio.wait_for(run.call(plain, run.inputs["url"], f"{run.inputs['tag']}:slow"), 0.1)
    return str(sent["id"])


def another_text(run: Any) -> str:
    """Two mails; their wording changes with the second life, and again with the fourth."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    text = f"draft {1 + (run.attempt > 1) + (run.attempt > 3)}"
    unscoped(url, f"{tag}:first", text)
    if run.attempt == 1:
        raise NoAnswer("the first life ends here")
    unscoped(url, f"{tag}:second", text)
    if run.attempt < 4:
        raise NoAnswer("and so does the one that sent the second mail")
    return "done"


@tool(side_effect_class="external", scope=["to"], files=["path"])
def enclosing(url: str, to: str, path: str, *, call: CallContext) -> dict[str, Any]:
    """What is sent is what the file holds."""
    return answered(post(f"{url}/plain", {"what": f"{to}:{(call.workspace / path).read_text('utf-8')}"}), 201)


def another_file(run: Any) -> str:
    """Each life writes the report of its day under the same name, and sends it."""
    (run.workspace / "report.txt").write_text("monday" if run.attempt == 1 else "tuesday", "utf-8")
    enclosing(run.inputs["url"], run.inputs["tag"], "report.txt")
    if run.attempt == 1:
        raise NoAnswer("the first life ends here")
    return "done"


@tool(side_effect_class="external", scope=["what"])
def referenced(url: str, what: str) -> dict[str, Any]:
    """Nothing can be asked; the provider's id comes with the reply."""
    return _sent(url, what)


@tool(side_effect_class="external", scope=["what"])
def declines(url: str, what: str) -> dict[str, Any]:
    """Whatever the provider says, this tool reports that nothing happened."""
    post(f"{url}/plain", {"what": what})
    raise ToolFailed("declined", retry=False)


def unsearched(run: Any) -> str:
    return str(referenced(run.inputs["url"], f"{run.inputs['tag']}:one")["id"])


def declined_late(run: Any) -> None:
    declines(run.inputs["url"], f"{run.inputs['tag']}:one")
