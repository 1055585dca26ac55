"""Jobs of a user who makes the usual mistakes; their tools note in a file of their own what was really done."""

JOB = """
import os
import time
from perdure import CallContext, Probe, tool


def really(what):
    log = os.open("really.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, (what + "\\n").encode())
    os.close(log)


@tool(side_effect_class="read_only")
def fetch(url: str) -> str:
    really("fetch")
    return f"<page> of {url}"


@tool(side_effect_class="external", scope=["to"])
def mail(to: str, text: str) -> dict:
    really("mail")
    return {"id": 1}


@mail.simulate
def no_mail(to: str, text: str) -> dict:
    return {"id": 1, "simulated": True}


@tool(side_effect_class="external", scope=["invoice"], key_ttl="24h")
def charge(invoice: str, *, call: CallContext) -> None:
    really("charge")


@tool(side_effect_class="external", scope=["channel"], probe_lag="30s")
def notify(channel: str, text: str) -> None:
    really("notify")


@notify.probe
def found(call: CallContext) -> Probe:
    really("probe")
    return Probe.not_happened(complete=True)


@tool(side_effect_class="external", scope=["invoice"], key_ttl="24h")
def charge_without_key(invoice: str) -> None:
    really("charge_without_key")


@tool(side_effect_class="external", scope=["to"], probe_lag="0s")
def told(to: str) -> int:
    really("told")
    return 1


@told.probe
def blind(call: CallContext) -> Probe:
    return Probe.not_happened(complete=True)


@tool(side_effect_class="external", scope=["cents"], approval="always")
def wire(cents: int) -> None:
    really("wire")


def good(run):
    page = run.memo("draft", lambda: fetch(run.inputs["url"]) + os.urandom(4).hex())
    charge("a")
    charge("a")  # meant
    notify("<team>", page)
    return mail("boss@example.org", page)


def keyless(run):
    charge_without_key("a")


def forgetful(run):
    seen = run.workspace / "seen"
    if not seen.exists():
        seen.write_text("")
        charge("a")
    return "sent"


def weak(run):
    charge("a")
    if run.attempt > 1:
        raise RuntimeError("out of paper")


def slow(run):
    charge("a")
    if run.attempt > 1:
        time.sleep(300)


def reworded(run):
    mail("boss@example.org", os.urandom(4).hex())


async def careful(run):
    first = await run.memo("think", lambda: really("think") or 5)
    await run.call(wire, first)


def probed(run):
    return told("boss@example.org")


def broken(run):
    charge("a")
    raise RuntimeError("never worked")


def late(run):
    from report_later import late_tool

    return late_tool("x")
"""
LATE = """
from perdure import tool

@tool(side_effect_class="external")
def late_tool(x: str) -> str:
    open("really.log", "a").write("late_tool\\n")
    return x
"""
ONLY_MAIL = """
from perdure import tool

@tool(side_effect_class="external", scope=["to"])
def send(to: str) -> dict:
    open("really.log", "a").write("send\\n")
    return {"id": "m1", "to": to}

@tool(side_effect_class="read_only")
def look() -> int:
    open("really.log", "a").write("look\\n")
    return 41

def main(run):
    number = run.memo("think", lambda: look() + 1)
    return [number, send("boss@example.org")["id"]]
"""
