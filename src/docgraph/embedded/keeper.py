"""Brings an embedded MongoDB back that died while it was needed."""

from __future__ import annotations

import threading

from docgraph.embedded.binary import LastingThread
from docgraph.embedded.mongo import EmbeddedMongo
from docgraph.exchange.errors import StartupError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed

__all__ = ["Keeper"]

_POLL_SECONDS = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class Keeper:
    """Watches from a thread of its own; a context manager around the time of watching.

    The thread lasts as long as the database is wanted, so a `mongod` that it starts is tied to
    this process like the first one.
    """

    def __init__(self, mongo: EmbeddedMongo) -> None:
        self._mongo = mongo
        self._done = threading.Event()
        self._thread = LastingThread(target=self._watch, name="docgraph-mongod", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def request_stop(self) -> None:
        """Ask for a clean end of the database, also a suspended one; it is not brought back."""
        self._done.set()
        self._mongo.request_stop()

    def kill(self) -> None:
        """End the database at once."""
        self._done.set()
        self._mongo.kill()

    def _watch(self) -> None:
        failures = 0
        while not self._done.wait(_POLL_SECONDS):
            if self._mongo.is_running:
                failures = 0
                continue
            try:
                self._mongo.start()
            except StartupError as error:
                failures += 1
                pause = min(_FIRST_PAUSE * 2 ** (failures - 1), _LONGEST_PAUSE)
                emit(BackgroundFailed("embedded-mongodb", error, failures, pause))
                self._done.wait(pause)
