"""Perdure on its default store: the tool of the README's quickstart (no probe, no key), the same run id again."""

import outside
from outside import CODE

import perdure
from perdure import tool


@tool(side_effect_class="external", scope=["to"])
def send_mail(to: str, subject: str) -> dict:
    return outside.send(subject, to)


@tool(side_effect_class="read_only")
def compute() -> str:
    return outside.look("compute")


@tool(side_effect_class="read_only")
def calculate() -> str:
    return outside.look("calculate")


@tool(side_effect_class="read_only")
def check() -> str:
    return outside.look("check")


if CODE == "mail":

    def main(run):
        compute()
        send_mail(outside.TO, "mail")
        return "done"

elif CODE == "v1":

    def main(run):
        send_mail(outside.TO, "announce")
        compute()
        send_mail(outside.TO, "report")
        return "done"

elif CODE == "added":

    def main(run):
        send_mail(outside.TO, "announce")
        check()
        compute()
        send_mail(outside.TO, "report")
        return "done"

elif CODE == "renamed":

    def main(run):
        send_mail(outside.TO, "announce")
        calculate()
        send_mail(outside.TO, "report")
        return "done"

elif CODE == "mail_first":

    def main(run):
        send_mail(outside.TO, "greet")
        send_mail(outside.TO, "announce")
        compute()
        send_mail(outside.TO, "report")
        return "done"


def start() -> None:
    outside.began_to_watch()
    outcome = perdure.run(main, run_id=outside.TRIAL, state_dir=outside.FOLDER)
    words = {"succeeded": "finished", "waiting": "waiting", "failed": "failed", "cancelled": "failed"}
    reason = f" ({outcome.reason})" if outcome.reason else ""
    for waiting in outcome.waiting_for:
        outside.say("question", kind=str(waiting.kind), tool_call_id=waiting.tool_call_id)
    outside.said(words.get(str(outcome.status), "pending"), f"{outcome.status}{reason}")


if __name__ == "__main__":
    start()
