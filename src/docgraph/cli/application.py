"""Database access of commands: the store and the plugins, without a server.

Writes pass the same interceptors as those of a server, so the command line cannot store what a
server would reject.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from docgraph.cli.terminal import notice
from docgraph.embedded import EmbeddedMongo
from docgraph.embedded.directory import DataDirectory
from docgraph.exchange import DocgraphError, StartupError
from docgraph.exchange.errors import StoreError
from docgraph.runtime import create_instance
from docgraph.runtime.sections import Core
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration
from docgraph.store.sections import MClient
from docgraph.store.versions import PATIENCE, Versions

_T = TypeVar("_T")
_SERVER_ERROR = 500


def work_on(prepared: LoadedConfiguration, work: Callable[[Docgraph], Awaitable[_T]]) -> _T:
    """Run work with the store and the plugins; a rejection is one clear message."""

    async def run(address: str) -> _T:
        async with open_application(prepared, address) as app:
            try:
                return await work(app)
            except StoreError as error:
                await app.store.outage.explains(error)  # detecting an outage takes a moment
                fault = app.store.fault
                if fault is None or error.status < _SERVER_ERROR:
                    raise
                hint = f"{fault.hint}\n  mclient.connection-string: {fault.contact.origin}"
                raise StartupError(fault.message, hint=hint) from error

    return run_at_database(prepared, run)


def run_at_database(
    prepared: LoadedConfiguration, run: Callable[[str], Coroutine[Any, Any, _T]]
) -> _T:
    """Run work with the address of the database; a rejection is one clear message."""
    with find_database(prepared) as address:
        try:
            return asyncio.run(run(address))
        except DocgraphError as error:
            advice = [error.fields.get("warning", ""), *error.fields.get("suggestions", ())]
            hint = "\n  ".join(part for part in (error.hint or "", *advice) if part)
            raise StartupError(error.message, hint=hint or None) from error


@contextmanager
def find_database(prepared: LoadedConfiguration) -> Iterator[str]:
    """Yield the address of the database that a server with this configuration uses.

    The server may run or not.
    """
    configured = prepared.config.get(MClient).connection_string
    running = configured or EmbeddedMongo.find_running(prepared.config.get(Core).data_directory)
    if running is not None:
        yield running
        return
    directory = DataDirectory(prepared.config.get(Core).data_directory)
    if not directory.data.is_dir():
        raise StartupError(
            f"there is no database in {directory.path}",
            hint="`docgraph serve` creates one; to use your own, set "
            "mclient.connection-string; for another directory, set core.data-directory",
        )
    from docgraph.server.process.host import open_database  # imports the HTTP server

    with open_database(prepared, notice) as address:
        yield address


@asynccontextmanager
async def open_application(prepared: LoadedConfiguration, address: str) -> AsyncIterator[Docgraph]:
    """Yield the application without the part that answers requests."""
    with create_instance() as instance:
        app = Docgraph(prepared, instance, address)
        try:
            await app.open()
            yield app
        finally:
            await app.shutdown()


async def print_served(what: str, versions: Versions) -> None:
    """Wait briefly for the running instances to apply a change, and print which have it."""
    try:
        spread = await versions.await_served()
    except DocgraphError as error:  # the write itself succeeded
        notice(f"{what}: it is not known which instances have the change: {error.message}")
        return
    if spread.live:
        count = len(spread.live)
        notice(f"{what}: live on {count} instance{'s' if count > 1 else ''}")
    for late in spread.late:
        notice(
            f"{what}: not live on {late}, which has not applied the change within {PATIENCE:g} s"
        )
