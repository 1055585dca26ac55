"""LangGraph, one node a step: SqliteSaver, durability="sync", resumed with invoke(None)."""

import sqlite3
from typing import TypedDict

import outside
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from outside import CODE


class State(TypedDict, total=False):
    last: str


NODES = {
    "mail": lambda state: {"last": str(outside.send("mail"))},
    "greet": lambda state: {"last": str(outside.send("greet"))},
    "announce": lambda state: {"last": str(outside.send("announce"))},
    "report": lambda state: {"last": str(outside.send("report"))},
    "compute": lambda state: {"last": outside.look("compute")},
    "calculate": lambda state: {"last": outside.look("calculate")},
    "check": lambda state: {"last": outside.look("check")},
}
ORDER = {
    "mail": ["compute", "mail"],
    "v1": ["announce", "compute", "report"],
    "added": ["announce", "check", "compute", "report"],
    "renamed": ["announce", "calculate", "report"],
    "mail_first": ["greet", "announce", "compute", "report"],
}


def main() -> None:
    graph = StateGraph(State)
    names = ORDER[CODE]
    for name in names:
        graph.add_node(name, NODES[name])
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    saver = SqliteSaver(sqlite3.connect(f"{outside.FOLDER}/langgraph.db", check_same_thread=False))
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": outside.TRIAL}}
    outside.began_to_watch()
    try:
        state = app.invoke({} if outside.LIFE == "start" else None, config, durability="sync")
    except Exception as error:
        outside.said("failed", f"{type(error).__name__}: {error}")
    outside.said("finished", f"invoke returned {state}; next is {app.get_state(config).next}")


if __name__ == "__main__":
    main()
