"""The package itself: every tool is there, and nothing heavy is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import perdure.toolbox
from perdure.model.errors import NoActiveRun
from perdure.ports.tool import Tool, ToolFailed
from perdure.toolbox import TOOLS
from perdure.toolbox._provider import OutcomeUnknown, flag, is_loopback, port_setting, refused
from tests.integration.toolbox_support import make_call

HEAVY = ("aiosmtplib", "httpx2", "lede", "lxml", "obstore", "protego", "trafilatura", "typst", "imaplib")

PROBE = f"""
import sys
from importlib import import_module
from perdure.toolbox import TOOLS
for path in TOOLS.values():
    import_module(path)
print([name for name in {HEAVY!r} if name in sys.modules])
"""


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_is_in_its_module_under_its_name(name: str) -> None:
    found = getattr(import_module(TOOLS[name]), name)
    assert isinstance(found, Tool)
    assert found.name == name
    assert "call" not in found.signature.parameters
    assert found.plain.__doc__


def test_names_resolve_lazily_and_a_module_wins_over_its_namesake() -> None:
    from perdure.toolbox import fetch, mail, send_mail

    assert fetch is import_module("perdure.toolbox.crawl").fetch
    assert send_mail is mail.send_mail
    assert perdure.toolbox.upload is import_module("perdure.toolbox.upload")
    assert set(TOOLS) <= set(dir(perdure.toolbox))
    with pytest.raises(AttributeError, match="no attribute 'telepathy'"):
        _ = perdure.toolbox.telepathy


def test_importing_every_module_loads_no_third_party_library_of_a_tool() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["send_mail", "upload", "notify", "write_file", "render_pdf"])
def test_outside_a_run_nothing_that_needs_a_run_is_done(name: str) -> None:
    tool = getattr(import_module(TOOLS[name]), name)
    with pytest.raises(NoActiveRun):
        tool(*(["x"] * sum(p.default is p.empty for p in tool.signature.parameters.values())))


def test_a_refusal_is_definite_only_at_the_first_attempt() -> None:
    first = refused(make_call(Path("w")), "no", retry=True)
    assert isinstance(first, ToolFailed) and first.retry is True
    assert isinstance(refused(make_call(Path("w"), attempt=2), "no", retry=True), OutcomeUnknown)


def test_settings_are_read_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, value in (("yes", True), (" ON ", True), ("0", False), ("False", False)):
        monkeypatch.setenv("PERDURE_X", text)
        assert flag("PERDURE_X", default=not value) is value
    monkeypatch.setenv("PERDURE_X", "")
    assert flag("PERDURE_X", default=True) is True
    for wrong in ("perhaps", "-1", "65536", "0", "12.0"):
        monkeypatch.setenv("PERDURE_X", wrong)
        with pytest.raises(ToolFailed):
            port_setting("PERDURE_X", 25)
    assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "example.org", "10.0.0.1")] == [
        True,
        True,
        True,
        False,
        False,
    ]
