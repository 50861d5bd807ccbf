"""Configuration sections of the database: connection (`mclient`), mounts, aggregation security."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta

from docgraph.config.section import ConnectionString, Milliseconds, Operator, Section, Uri, View
from docgraph.exchange.errors import Problem
from docgraph.runtime.sections import Core

CONNECTION_STRING_FORM: Final = (
    "write it as mongodb://user:password@host:port/?option=value, with ':', '/', '@' and '%' in "
    "user and password percent-encoded, options that the driver knows, and files that are there"
)
_OPTIONS: Final = (
    "see the connection string options of MongoDB for its spelling and values; files have to be "
    "there"
)
# In a login, where ':' occurs once, and '%' only before two hexadecimal digits.
_SPECIAL: Final = re.compile(r":.*:|[/?#\[\]]|%(?![0-9A-Fa-f]{2})", re.S)


MIN_POOL_SIZE: Final = 4  # for reads, writes in transactions and health checks

# Connections of the client of change streams, in addition to one for each cursor of callers.
_OWN_CURSORS: Final = 4  # of docgraph itself: apps, rules, users, revoked tokens
_WATCHED_DATABASES: Final = 8  # that cached answers and live queries depend on
_PAST_READS: Final = 8  # clients that catch up at the same time
_STREAM_COMMANDS: Final = 16  # that decide who may see events, or prepare a stream


def count_stream_connections(cursors: int) -> int:
    """Return the connections that a worker needs for so many cursors of callers and its own."""
    return cursors + _OWN_CURSORS + _WATCHED_DATABASES + _PAST_READS + _STREAM_COMMANDS


class MClient(Section, frozen=True):
    """The connection to MongoDB."""

    section_name: ClassVar[str] = "mclient"
    connection_string: Annotated[
        ConnectionString | None,
        "address of the MongoDB; none starts the embedded one, for trying things out",
    ] = None
    command_ceiling_ms: Annotated[
        Milliseconds, "longest time of one database command; 0 means no ceiling"
    ] = 300_000
    max_pool_size: Annotated[
        int,
        Meta(ge=MIN_POOL_SIZE, le=10_000),
        "most connections per worker process for requests; change streams have their own: "
        "`events.max-cursors`",
    ] = 100
    min_pool_size: Annotated[
        int, Meta(ge=0, le=10_000), "connections kept open per worker process"
    ] = 5
    max_connecting: Annotated[
        int, Meta(ge=1, le=100), "connections that are opened at the same time"
    ] = 2
    wait_queue_timeout_ms: Annotated[
        Annotated[int, Meta(ge=1, le=600_000)] | None,
        "longest wait for a free connection, within `core.wait-timeout-ms`; then 503; null: that "
        "time",
    ] = None
    connect_timeout_ms: Annotated[
        int, Meta(ge=1, le=600_000), "longest time to open a connection"
    ] = 2000
    heartbeat_frequency_ms: Annotated[
        int, Meta(ge=500, le=600_000), "time between two checks of the servers"
    ] = 2000
    server_selection_timeout_ms: Annotated[
        int, Meta(ge=1, le=600_000), "longest wait for a server, such as a new primary"
    ] = 15_000
    uuid_representation: Annotated[
        Literal["standard", "java-legacy", "csharp-legacy", "python-legacy"],
        "byte order in which UUIDs of binary subtype 3 are shown and read: that of the driver "
        "that stored them",
    ] = "standard"

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Report invalid pool sizes, and a connection string that the driver cannot parse."""
        yield from view.compare(self, "min-pool-size", "max-pool-size")
        if self.connection_string is not None and not _can_be_read(self.connection_string):
            what, hint = _find_flaw(self.connection_string)
            yield view.blame("/mclient/connection-string", what, hint)
        elif self.connection_string is not None and _has_small_pool(self.connection_string):
            yield view.blame(
                "/mclient/connection-string",
                f"maxPoolSize is below {MIN_POOL_SIZE}: requests would wait for each other",
                f"set maxPoolSize to {MIN_POOL_SIZE} or more, or remove it (the default is 100)",
            )

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Report a wait for connections that ends earlier with the wait of the request."""
        core, longest = view.get(Core), self.wait_queue_timeout_ms
        if core is not None and longest is not None and 0 < core.wait_timeout_ms < longest:
            yield view.blame(
                "/mclient/wait-queue-timeout-ms",
                f"without effect: requests wait for at most {core.wait_timeout_ms} ms",
                "raise /core/wait-timeout-ms, or remove it",
            )


def _has_small_pool(connection_string: str) -> bool:
    options = parse_qsl(connection_string.partition("?")[2])
    sizes = [value for name, value in options if name.lower() == "maxpoolsize"]
    return any(size.isdecimal() and 0 < int(size) < MIN_POOL_SIZE for size in sizes)


def _find_flaw(connection_string: str) -> tuple[str, str]:
    """Return what the driver rejects, and what to do; nothing of a password is shown."""
    rest = connection_string.removeprefix("mongodb://")
    before, _, options = rest.rpartition("@")[2].partition("?")
    if rest.count("@") > 1 or _SPECIAL.search(rest.rpartition("@")[0]):
        text = "user or password has a character with another meaning"
        return text, "write ':' as %3A, '/' as %2F, '@' as %40, '%' as %25, '?' as %3F, '#' as %23"
    for name, value in parse_qsl(options, keep_blank_values=True):
        if not _can_be_read(f"mongodb://host/?{urlencode({name: value})}"):
            return f"the driver does not take its option {name!r}, or not with this value", _OPTIONS
    if not before.partition("/")[0]:
        return "it names no host", CONNECTION_STRING_FORM
    return "the driver cannot read it", CONNECTION_STRING_FORM


def _can_be_read(connection_string: str) -> bool:
    """Check if the driver can parse it, as far as possible without network access."""
    from pymongo.client_options import ClientOptions
    from pymongo.errors import PyMongoError
    from pymongo.uri_parser import parse_uri

    if not connection_string.startswith("mongodb://"):
        return True  # the driver would query the name server
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # an unknown option
        try:
            read = parse_uri(connection_string)
            password: Any = read["password"] or None
            ClientOptions(read["username"], password, read["database"], read["options"])
        except (PyMongoError, UserWarning, ValueError, TypeError, OSError):
            return False
    return True


class MongoMount(Section, frozen=True):
    """A part of the database and the path it is served at."""

    what: Annotated[
        str,
        Meta(
            pattern=r"^(\*|/[^/\s]+(/[^/\s]+){0,2})\Z",
            extra={"form": "'*', '/db', '/db/collection' or '/db/collection/document'"},
        ),
        "`*` for all databases, `/db`, `/db/collection` or `/db/collection/document`",
    ]
    where: Annotated[Uri, "path it is served at"]


class AggregationSecurity(Section, frozen=True):
    """Stages and operators refused on top of those that are refused always."""

    section_name: ClassVar[str] = "aggregationSecurity"
    enabled: Annotated[bool, "whether the lists below are applied"] = True
    stage_blacklist: Annotated[tuple[Operator, ...], "further stages that are refused"] = (
        msgspec.field(name="stageBlacklist", default=("$out", "$merge"))
    )
    operator_blacklist: Annotated[tuple[Operator, ...], "further operators that are refused"] = (
        msgspec.field(name="operatorBlacklist", default=("$where", "$function", "$accumulator"))
    )
    allow_cross_database_operations: Annotated[
        bool, "whether `$lookup` and its like may reach other databases"
    ] = msgspec.field(name="allowCrossDatabaseOperations", default=False)
    allow_java_script_execution: Annotated[
        bool, "understood and without effect: JavaScript is refused always"
    ] = msgspec.field(name="allowJavaScriptExecution", default=False)

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Report an option without effect: JavaScript is always rejected (decision 20a)."""
        if self.allow_java_script_execution:
            yield view.blame(
                "/aggregationSecurity/allowJavaScriptExecution",
                "without effect: JavaScript is refused always",
                "remove it",
            )
