"""What a life costs that meets only receipts: no transaction is opened in it that writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.store.sqlite.connection import SqliteConnection
from tests.integration.engine_support import Outside, mailer, open_engine


def test_no_transaction_of_a_life_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send, told = mailer(Outside()), list[str]()
    begin, write, commit = SqliteConnection.begin, SqliteConnection.write, SqliteConnection.commit

    def watched(name: str, honest: Any) -> Any:
        def call(self: SqliteConnection, *args: Any) -> Any:
            told.append(name)
            return honest(self, *args)

        return call

    def main(run: Any) -> Any:
        return run.call(send, "a")

    with open_engine(tmp_path) as engine:
        for name, honest in (("begin", begin), ("write", write), ("commit", commit)):
            monkeypatch.setattr(SqliteConnection, name, watched(name, honest))
        assert engine.run(main, run_id="r1").status == "succeeded"
    assert told.count("begin") == told.count("commit") > 2
    empty = [at for at, name in enumerate(told) if name == "begin" and told[at + 1] == "commit"]
    assert empty == []
