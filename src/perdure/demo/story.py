"""Tells what the run does while it does it, from the rows of its ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from perdure.demo.screen import Screen
from perdure.demo.world.pages import load_pages
from perdure.demo.world.tally import PRIVATE_PATH
from perdure.engine import Engine

READABLE_PAGES = sum(page.path != PRIVATE_PATH for page in load_pages().values())
_STORED_EXTRA = "already_existed"


class Story:
    """Follows one run and writes a line for each call that came to an end.

    Args:
        engine: opened on the run's ledger; it only looks.
        run_id: the run, which need not exist yet.
        screen: where the lines go.
    """

    def __init__(self, engine: Engine, run_id: str, screen: Screen) -> None:
        self._engine = engine
        self._run_id = run_id
        self._screen = screen
        self._told: set[str] = set()
        self._lost: set[str] = set()
        self._asked: set[str] = set()
        self._read = 0
        self._tellers: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
            "fetch": self._page,
            "write_file": self._report,
            "render_pdf": self._pdf,
            "upload": self._upload,
            "send_mail": self._mail,
            "notify": self._notice,
        }

    def look(self) -> None:
        """Tell what was recorded since the last look."""
        for call in self._calls():
            if call["status"] == "in_doubt":
                self._doubt(self._engine.call(call["tool_call_id"]))
            elif call["status"] == "succeeded" and call["tool_call_id"] not in self._told:
                self._told.add(call["tool_call_id"])
                teller = self._tellers.get(call["tool_name"])
                if teller is not None:
                    found = self._engine.call(call["tool_call_id"])
                    teller(found, json.loads(found["response"]))

    def lost(self) -> dict[str, str]:
        """Return the calls that were started and have no outcome: tool by id. They are told apart from then on."""
        found = {
            call["tool_call_id"]: call["tool_name"]
            for call in self._calls()
            if call["status"] in ("running", "in_doubt")
        }
        self._lost.update(found)
        return found

    def name(self, call_id: str) -> str:
        """Return what a person would call a call."""
        call = self._engine.call(call_id)
        asked = json.loads(call["request"])
        return f"{call['tool_name']} {_path(asked) if call['tool_name'] == 'fetch' else call_id}"

    def progress(self, tool: str) -> tuple[int, int]:
        """Return how many calls of a tool have their receipts, and how many are under way."""
        states = [call["status"] for call in self._calls() if call["tool_name"] == tool]
        return states.count("succeeded"), states.count("running")

    def receipts(self) -> int:
        """Return how many calls have their receipt."""
        return sum(call["status"] == "succeeded" for call in self._calls())

    def last_call(self, tool: str) -> str | None:
        """Return the id of a tool's newest call."""
        found = [call["tool_call_id"] for call in self._calls() if call["tool_name"] == tool]
        return found[-1] if found else None

    def _calls(self) -> list[dict[str, Any]]:
        known = any(row.run_id == self._run_id for row in self._engine.runs())
        return self._engine.calls(self._run_id) if known else []

    # --- one line each -------------------------------------------------------------------------------------------

    def _page(self, call: dict[str, Any], page: dict[str, Any]) -> None:
        path = _path(page)
        if page["error"] is not None:
            self._screen.line(f"page        {path}: {page['error']} → the report's appendix")
            return
        self._read += 1
        again = ", asked for again" if call["tool_call_id"] in self._lost else ""
        self._screen.line(f"page {self._read:2}/{READABLE_PAGES}  {path}, {page['size_bytes']} bytes{again}")

    def _report(self, call: dict[str, Any], stored: dict[str, Any]) -> None:
        self._screen.line(f"report      {stored['path']} written, {stored['size_bytes']} bytes")

    def _pdf(self, call: dict[str, Any], stored: dict[str, Any]) -> None:
        self._screen.line(f"PDF         {stored['path']} made, sha256 {stored['sha256'][:16]}…")

    def _upload(self, call: dict[str, Any], stored: dict[str, Any]) -> None:
        if call["tool_call_id"] in self._lost:
            there = stored[_STORED_EXTRA]
            self._decided(
                "the same create-only upload again: "
                + ("it is there, with the same bytes → not stored again" if there else "it was not there → stored now")
            )
        else:
            self._screen.line(f"upload      {stored['url']} stored")

    def _mail(self, call: dict[str, Any], sent: dict[str, Any]) -> None:
        if call["tool_call_id"] not in self._lost:
            self._screen.line(f"mail        accepted for {', '.join(sent['to'])}")
            return
        said = {(item["kind"], item["says"]) for item in call["evidence"]}
        if ("probe", "happened") in said:
            self._decided("the mailbox was asked for its Message-ID: it is there → not sent again")
        elif ("verdict", "happened") in said:
            self._decided("a person said that it is there → not sent again")
        elif ("probe", "not_happened") in said:
            self._decided("the mailbox does not have it → sent now")
        elif ("verdict", "did_not_happen") in said:
            self._decided("a person said that it is not there → sent now")
        else:
            self._decided(f"nobody was asked → sent in attempt {call['attempt']}")

    def _notice(self, call: dict[str, Any], answer: dict[str, Any]) -> None:
        self._screen.line(f"notice      accepted by the receiver ({answer['status']})")

    def _doubt(self, call: dict[str, Any]) -> None:
        answers = [item["says"] for item in call["evidence"] if item["kind"] == "probe"]
        if answers == ["not_happened"] and call["tool_call_id"] not in self._asked:
            self._asked.add(call["tool_call_id"])
            self._screen.line(
                "the mailbox does not have it; that counts only when the tool's probe_lag has passed", "ask"
            )

    def _decided(self, text: str) -> None:
        self._screen.line(f"settled: {text}", "go on")


def _path(page: dict[str, Any]) -> str:
    return urlsplit(str(page["url"])).path
