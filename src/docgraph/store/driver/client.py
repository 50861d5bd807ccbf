"""MongoDB clients: the two clients of the process, built from the section `mclient`.

One serves requests. The other serves change streams: each open cursor holds a connection, and must
not take it from requests. Its pool is as large as the cursors need (`count_stream_connections`); no
option of the connection string changes that.

Pool size and timeouts are docgraph's defaults unless the connection string sets them: an author who
writes `maxPoolSize=20` there means it. How values are decoded cannot be changed, because the rest
of docgraph relies on it. The client connects when it is first used, or by `aconnect`; an
unreachable database does not prevent the start.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from math import inf
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pymongo
from bson.codec_options import DatetimeConversion
from pymongo import AsyncMongoClient, MongoClient, ReadPreference
from pymongo.driver_info import DriverInfo
from pymongo.errors import NetworkTimeout, PyMongoError

from docgraph import __version__
from docgraph.exchange.data import Document
from docgraph.exchange.errors import StartupError
from docgraph.store.driver.driver_internals import ServerMode, fix_waiting
from docgraph.store.driver.waiting import Election
from docgraph.store.sections import CONNECTION_STRING_FORM, MClient

DriverClient = AsyncMongoClient[Document]

_HEARTBEAT_MS = 2000  # of the probes; the driver gives up a silent server after two of them
_FAREWELL_SECONDS = 1.0  # for ending sessions and cursors on the server
_NO_WAIT = 0.001  # seconds: 0 would be no limit


def build_client(
    section: MClient,
    connection_string: str,
    *,
    wait_ms: int = 15_000,
    stream_connections: int | None = None,
) -> DriverClient:
    """Return a client that is not connected yet; reject an invalid connection string at start.

    `wait_ms` is the longest wait for a free connection, 0 no limit, if the section has none. With
    `stream_connections` it is the client of change streams, with that many connections.
    """
    options = _defaults(section, connection_string, wait_ms)
    if stream_connections is not None:
        options |= {"maxPoolSize": stream_connections, "minPoolSize": 0}
    fix_waiting()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # an unknown option
        try:
            return AsyncMongoClient(
                connection_string,
                driver=DriverInfo("docgraph", __version__),
                document_class=dict,
                tz_aware=False,
                uuidRepresentation="unspecified",
                datetime_conversion=DatetimeConversion.DATETIME_AUTO.name,
                **options,
            )
        # The driver's messages may contain pieces of the password, so none of them is shown.
        except (PyMongoError, UserWarning, ValueError, TypeError, OSError):
            raise StartupError(
                "mclient.connection-string cannot be used", hint=CONNECTION_STRING_FORM
            ) from None


async def close_client(client: DriverClient) -> None:
    """Close the client; do not end sessions on an unreachable server, which expires them itself.

    Otherwise the driver would wait for the server as long as for any command.
    """
    servers = client.topology_description.server_descriptions().values()
    if any(server.is_server_type_known for server in servers):
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await client.close()
                return
    with pymongo.timeout(_NO_WAIT):
        await client.close()


class BlockingPing:
    """Pings the database without an event loop; requests wait for a server as `longest_wait`."""

    def __init__(
        self, connection_string: str, seconds: float, db: str, longest_wait: float
    ) -> None:
        self._connection_string = connection_string
        self._milliseconds = max(1, int(seconds * 1000))
        self._db = db
        self._client: MongoClient[Document] | None = None
        self._election = Election(longest_wait)

    def ping(self) -> bool:
        """Wait until the database answers; return whether requests wait for a new primary.

        Raises `TimeoutError` or `ConnectionError`. See `Store.is_electing`.
        """
        try:
            if self._client is None:
                self._client = MongoClient(
                    self._connection_string,
                    maxPoolSize=1,
                    minPoolSize=0,
                    # Monitors hear of a new primary from the set itself: probes report it without
                    # a delay.
                    heartbeatFrequencyMS=_HEARTBEAT_MS,
                    appname="docgraph-probes",
                    serverSelectionTimeoutMS=self._milliseconds,
                    connectTimeoutMS=self._milliseconds,
                    socketTimeoutMS=self._milliseconds,
                )
            if not self._election.is_awaited(self._client.topology_description):
                try:
                    self._send(self._client, self._client.read_preference)
                    return False
                except PyMongoError:
                    if not self._election.is_awaited(self._client.topology_description):
                        raise
            self._send(self._client, ReadPreference.SECONDARY)
            return True
        except NetworkTimeout:
            raise TimeoutError("no answer in time") from None
        except PyMongoError:
            raise ConnectionError("the database cannot be reached") from None

    def _send(self, client: MongoClient[Document], preference: ServerMode) -> None:
        client[self._db].command({"ping": 1}, read_preference=preference)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def find_longest_wait(section: MClient, connection_string: str, wait_ms: int) -> float:
    """Return for how many seconds a request waits for a server."""
    options = dict(parse_qsl(urlsplit(connection_string.lower()).query))
    driver_ms = int(options.get("serverselectiontimeoutms", section.server_selection_timeout_ms))
    return min(wait_ms or inf, driver_ms) / 1000


def _defaults(section: MClient, connection_string: str, wait_ms: int) -> dict[str, Any]:
    """Return the options that the connection string does not set."""
    defaults = {
        "maxPoolSize": section.max_pool_size,
        "minPoolSize": min(section.min_pool_size, section.max_pool_size),
        "maxConnecting": section.max_connecting,
        "waitQueueTimeoutMS": section.wait_queue_timeout_ms or wait_ms or None,
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
        chosen.pop("minPoolSize", None)  # ours might exceed the maximum of the connection string
    return chosen
