"""A command's own look at the database: the store and the plugins, without a server.

Writes pass the same interceptors as those of a server, so nothing that a server would refuse gets
in by the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from docgraph.cli.terminal import notice
from docgraph.embedded.directory import DataDirectory
from docgraph.embedded.mongo import EmbeddedMongo
from docgraph.exchange import DocgraphError, StartupError
from docgraph.exchange.errors import StoreError
from docgraph.runtime import create_instance
from docgraph.runtime.sections import Core
from docgraph.server.app import Docgraph
from docgraph.server.prepare import Prepared
from docgraph.server.process.host import open_database
from docgraph.store.sections import MClient
from docgraph.store.versions import PATIENCE, Versions

__all__ = ["find_database", "open_workbench", "run_at_database", "tell_served", "work_on"]

_T = TypeVar("_T")
_SERVER_ERROR = 500


def work_on(prepared: Prepared, work: Callable[[Docgraph], Awaitable[_T]]) -> _T:
    """Do something with the store and the plugins; what is refused is one clear message."""

    async def run(address: str) -> _T:
        async with open_workbench(prepared, address) as app:
            try:
                return await work(app)
            except StoreError as error:
                await app.store.outage.explains(error)  # it takes a moment until it is known
                fault = app.store.fault
                if fault is None or error.status < _SERVER_ERROR:
                    raise
                hint = f"{fault.hint}\n  mclient.connection-string: {fault.contact.origin}"
                raise StartupError(fault.message, hint=hint) from error

    return run_at_database(prepared, run)


def run_at_database(prepared: Prepared, run: Callable[[str], Coroutine[Any, Any, _T]]) -> _T:
    """Run something with the address of the database; what is refused is one clear message."""
    with find_database(prepared) as address:
        try:
            return asyncio.run(run(address))
        except DocgraphError as error:
            advice = [error.fields.get("warning", ""), *error.fields.get("suggestions", ())]
            hint = "\n  ".join(part for part in (error.hint or "", *advice) if part)
            raise StartupError(error.message, hint=hint or None) from error


@contextmanager
def find_database(prepared: Prepared) -> Iterator[str]:
    """The database that a server with this configuration uses, whether it runs or not."""
    if prepared.config.get(MClient).connection_string is None:
        running = EmbeddedMongo.find_running(prepared.config.get(Core).data_directory)
        if running is not None:
            yield running
            return
        _require_data(prepared)
    with open_database(prepared, notice) as address:
        yield address


def _require_data(prepared: Prepared) -> None:
    """Only a server makes a database: a command that made one would look at an empty one."""
    directory = DataDirectory(prepared.config.get(Core).data_directory)
    if not directory.data.is_dir():
        raise StartupError(
            f"there is no database in {directory.path}",
            hint="`docgraph serve` makes one there; mclient.connection-string names one of yours, "
            "core.data-directory another directory",
        )


@asynccontextmanager
async def open_workbench(prepared: Prepared, address: str) -> AsyncIterator[Docgraph]:
    """Everything but the part that answers requests."""
    with create_instance() as instance:
        app = Docgraph(prepared, instance, address)
        try:
            await app.open()
            yield app
        finally:
            await app.shutdown()


async def tell_served(what: str, versions: Versions) -> None:
    """Wait a little for the instances that run to take up a change, and say who has it."""
    try:
        spread = await versions.await_served()
    except DocgraphError as error:  # what was written is written
        notice(f"{what}: nobody can say which instances have the change: {error.message}")
        return
    if spread.live:
        count = len(spread.live)
        notice(f"{what}: live on {count} instance{'s' if count > 1 else ''}")
    for one in spread.late:
        notice(f"{what}: not live on {one}, which has not taken up the change in {PATIENCE:g} s")
