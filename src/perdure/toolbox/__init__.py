"""The built-in tools: one module each, and no third-party library is loaded before its tool is used.

A job names the modules it wants (``tools: [perdure.toolbox.crawl, perdure.toolbox.mail]``); a Python agent
imports the tool from its module, or from here when tool and module have different names. Needs the
``toolbox`` extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.toolbox.crawl import fetch as fetch
    from perdure.toolbox.files import list_dir as list_dir
    from perdure.toolbox.files import read_file as read_file
    from perdure.toolbox.files import write_file as write_file
    from perdure.toolbox.mail import send_mail as send_mail
    from perdure.toolbox.pdf import render_pdf as render_pdf
    from perdure.toolbox.shell import run_command as run_command

TOOLS: dict[str, str] = {
    "crawl": "perdure.toolbox.crawl",
    "extract": "perdure.toolbox.extract",
    "fetch": "perdure.toolbox.crawl",
    "list_dir": "perdure.toolbox.files",
    "notify": "perdure.toolbox.notify",
    "read_file": "perdure.toolbox.files",
    "render_pdf": "perdure.toolbox.pdf",
    "run_command": "perdure.toolbox.shell",
    "send_mail": "perdure.toolbox.mail",
    "summarise": "perdure.toolbox.summarise",
    "upload": "perdure.toolbox.upload",
    "write_file": "perdure.toolbox.files",
}
"""Every built-in tool and the module that holds it."""

_MODULES = frozenset(path.rpartition(".")[2] for path in TOOLS.values())


def __getattr__(name: str) -> Any:
    # A module wins over a tool of the same name, as the import system would have it anyway once it is loaded.
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in TOOLS:
        return getattr(import_module(TOOLS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *TOOLS, *_MODULES})
