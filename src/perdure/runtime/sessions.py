"""The session that a model's provider keeps of a conversation: its id is stored before anything relies on it (R097).

This is the hook for those who adapt an agent of their own: hand ``get()`` to the provider to go on, or
``forked_from`` to begin a copy of the parent's session; ``set`` what the provider answers, ``invalidate`` what it
refuses. A run goes on without any id as well.
"""

from __future__ import annotations

from dataclasses import replace

from perdure.runtime import fingerprints
from perdure.runtime.life import Life
from perdure.store.sql_store import SqlStore


class _Session:
    def __init__(self, life: Life) -> None:
        self._life = life

    def get(self) -> str | None:
        """Return the id that was stored last, in whatever life; ``None`` where none is known or it was invalidated."""
        return self._life.origin.provider_session_id

    @property
    def forked_from(self) -> str | None:
        """The session of the run that this one was forked from, as it was at the checkpoint."""
        return self._life.origin.provider_session_forked_from

    def _store(self, store: SqlStore, provider_session_id: str | None) -> None:
        life = self._life
        store.origins.set_session(life.run_id, life.fence, provider_session_id, life.now())
        life.origin = replace(life.origin, provider_session_id=provider_session_id)


class ProviderSession(_Session):
    """The provider's session, in ``def main``."""

    def set(self, provider_session_id: str) -> None:
        """Store the provider's id durably; checkpoints written from now on carry it."""
        self._life.check_open()
        self._life.ledger.run(lambda store: self._store(store, provider_session_id))

    def invalidate(self) -> None:
        """Forget the id, because the provider does not know it any more; no later life gets it."""
        self._life.check_open()
        self._life.ledger.run(lambda store: self._store(store, None))


class AsyncProviderSession(_Session):
    """The provider's session, in ``async def main``; as ``ProviderSession``, awaited where something is stored."""

    async def set(self, provider_session_id: str) -> None:
        """Store the provider's id durably; checkpoints written from now on carry it."""
        await self._commit(provider_session_id)

    async def invalidate(self) -> None:
        """Forget the id, because the provider does not know it any more; no later life gets it."""
        await self._commit(None)

    async def _commit(self, provider_session_id: str | None) -> None:
        from perdure.runtime.drive_async import commit

        self._life.check_open()
        await commit(self._life, lambda store: self._store(store, provider_session_id))


def note_prompt(life: Life, store: SqlStore, text: str, model: str | None) -> None:
    """Store what the agent was told to do, and the model it was told to."""
    store.origins.set_prompt(life.run_id, life.fence, text, life.now())
    fingerprints.report(life, store, model=model, prompt=text)
