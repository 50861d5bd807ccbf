"""The one client of the process, built from the section `mclient`.

Pool and timeouts are docgraph's unless the connection string says otherwise: whoever writes
`maxPoolSize=20` there means it. How values are decoded is not negotiable, the rest of docgraph
relies on it. The client connects when it is first used, or by `aconnect`; a database that is down
is no reason not to start.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bson.codec_options import DatetimeConversion
from pymongo import AsyncMongoClient
from pymongo.driver_info import DriverInfo
from pymongo.errors import PyMongoError

from docgraph import __version__
from docgraph.exchange.data import Document
from docgraph.exchange.errors import StartupError
from docgraph.store.driver.conditions import mend_waiting
from docgraph.store.sections import CONNECTION_STRING_FORM, MClient

__all__ = ["Client", "build_client", "close_client"]

Client = AsyncMongoClient[Document]

_FAREWELL_SECONDS = 1.0  # for telling the server which sessions and cursors are over


def build_client(section: MClient, connection_string: str) -> Client:
    """A client that is not connected yet; a connection string that cannot work is a start error."""
    mend_waiting()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # an option the driver does not know
        try:
            return AsyncMongoClient(
                connection_string,
                driver=DriverInfo("docgraph", __version__),
                document_class=dict,
                tz_aware=False,
                uuidRepresentation="unspecified",
                datetime_conversion=DatetimeConversion.DATETIME_AUTO.name,
                **_defaults(section, connection_string),
            )
        # The texts of the driver may hold pieces of the password, so none of them is shown.
        except (PyMongoError, UserWarning, ValueError, TypeError, OSError):
            raise StartupError(
                "mclient.connection-string cannot be used",
                hint=CONNECTION_STRING_FORM,
            ) from None


async def close_client(client: Client) -> None:
    """Close it; a server that does not listen is not told what is over: it finds out by itself.

    The driver would wait for one as long as it waits for any command.
    """
    servers = client.topology_description.server_descriptions().values()
    if any(one.is_server_type_known for one in servers):
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await client.close()
                return
    if client._topology is not None:  # else its name has never led anywhere
        client._topology.pop_all_sessions()
    client._kill_cursors_queue.clear()
    await client.close()


def _defaults(section: MClient, connection_string: str) -> dict[str, Any]:
    """The options that the connection string leaves open."""
    defaults = {
        "maxPoolSize": section.max_pool_size,
        "minPoolSize": min(section.min_pool_size, section.max_pool_size),
        "maxConnecting": section.max_connecting,
        "waitQueueTimeoutMS": section.wait_queue_timeout_ms,
        "connectTimeoutMS": section.connect_timeout_ms,
        "heartbeatFrequencyMS": section.heartbeat_frequency_ms,
        "serverSelectionTimeoutMS": section.server_selection_timeout_ms,
        "retryReads": True,
        "retryWrites": True,
        "appname": "docgraph",
    }
    given = {name.lower() for name, _ in parse_qsl(urlsplit(connection_string).query)}
    chosen = {name: value for name, value in defaults.items() if name.lower() not in given}
    if "maxpoolsize" in given:
        chosen.pop("minPoolSize", None)  # ours might be more than theirs
    return chosen
