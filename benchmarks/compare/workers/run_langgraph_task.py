"""LangGraph's functional API, a @task a step: SqliteSaver, durability="sync", resumed with invoke(None)."""

import sqlite3

import outside
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from outside import CODE

SAVER = SqliteSaver(sqlite3.connect(f"{outside.FOLDER}/langgraph.db", check_same_thread=False))


@task
def send_mail(subject: str) -> dict:
    return outside.send(subject)


@task
def compute() -> str:
    return outside.look("compute")


@task
def calculate() -> str:
    return outside.look("calculate")


@task
def check() -> str:
    return outside.look("check")


if CODE == "mail":

    @entrypoint(checkpointer=SAVER)
    def job(topic: str) -> str:
        compute().result()
        send_mail("mail").result()
        return "done"

elif CODE == "v1":

    @entrypoint(checkpointer=SAVER)
    def job(topic: str) -> str:
        send_mail("announce").result()
        compute().result()
        send_mail("report").result()
        return "done"

elif CODE == "added":

    @entrypoint(checkpointer=SAVER)
    def job(topic: str) -> str:
        send_mail("announce").result()
        check().result()
        compute().result()
        send_mail("report").result()
        return "done"

elif CODE == "renamed":

    @entrypoint(checkpointer=SAVER)
    def job(topic: str) -> str:
        send_mail("announce").result()
        calculate().result()
        send_mail("report").result()
        return "done"

elif CODE == "mail_first":

    @entrypoint(checkpointer=SAVER)
    def job(topic: str) -> str:
        send_mail("greet").result()
        send_mail("announce").result()
        compute().result()
        send_mail("report").result()
        return "done"


def main() -> None:
    config = {"configurable": {"thread_id": outside.TRIAL}}
    outside.began_to_watch()
    try:
        value = job.invoke("topic" if outside.LIFE == "start" else None, config, durability="sync")
    except Exception as error:
        outside.said("failed", f"{type(error).__name__}: {error}")
    outside.said("finished", f"invoke returned {value!r}; next is {job.get_state(config).next}")


if __name__ == "__main__":
    main()
