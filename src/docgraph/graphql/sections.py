"""Sections of the GraphQL service: `graphql`, its limits, and the plugins that cache apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from docgraph.config.section import (
    ByteSize,
    Milliseconds,
    Name,
    PluginConfig,
    Section,
    ServiceConfig,
    Uri,
    View,
)
from docgraph.exchange.errors import Problem

PositiveCount = Annotated[int, Meta(ge=1, le=1_000_000_000)]
CursorSecret = Annotated[str, Meta(min_length=32, extra={"secret": True})]


class GraphqlLimits(Section, frozen=True):
    """What one query may cost; an app may set its own in `descriptor.limits`."""

    depth: Annotated[PositiveCount, "levels of fields, fragments included"] = 15
    aliases: Annotated[PositiveCount, "aliased fields"] = 50
    root_fields: Annotated[PositiveCount, "fields of `Query`"] = 20
    tokens: Annotated[PositiveCount, "tokens of the query text"] = 2500
    directives: Annotated[PositiveCount, "directives"] = 50
    estimated_documents: Annotated[
        PositiveCount, "documents that a query could need, before execution"
    ] = 2_000_000
    fetched_documents: Annotated[PositiveCount, "documents really fetched"] = 100_000
    relation_depth: Annotated[PositiveCount, "levels of relations in the conditions of a list"] = 3
    representations: Annotated[
        PositiveCount, "representations that a gateway sends to `_entities`"
    ] = 10_000
    response_bytes: Annotated[ByteSize, "size of the response"] = 16_777_216


class GraphqlLive(Section, frozen=True):
    """Live queries (`query @live`), in apps with `descriptor.live`."""

    min_interval_ms: Annotated[
        int, Meta(ge=10, le=3_600_000), "shortest time between two answers of a query"
    ] = 200
    max_queries: Annotated[PositiveCount, "live queries of an instance that are open at a time"] = (
        1000
    )
    max_queries_per_user: Annotated[
        PositiveCount, "live queries of a user that are open at a time"
    ] = 100
    max_queries_per_address: Annotated[
        PositiveCount, "live queries of an address that are open at a time"
    ] = 400
    max_executions: Annotated[
        PositiveCount,
        "times per second that an instance runs live queries again; beyond it answers are less "
        "frequent, for each user alike",
    ] = 200


class GraphqlCache(Section, frozen=True):
    """The cache of answers, for apps with `descriptor.cache`."""

    max_bytes: Annotated[
        int,
        Meta(ge=0, le=1_099_511_627_776),
        "memory for cached answers, shared evenly by the workers; 0: no cache",
    ] = 67_108_864
    max_lag_ms: Annotated[
        int,
        Meta(ge=100, le=60_000),
        "longest time in ms that a cached answer may be behind the database; the cache is "
        "bypassed while changes arrive later than that",
    ] = 1_000


class Graphql(ServiceConfig, frozen=True):
    """The GraphQL API."""

    section_name: ClassVar[str] = "graphql"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "base path of the GraphQL API"] = "/graphql"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = True
    db: Annotated[Name, "database holding the app definitions"] = "docgraph"
    collection: Annotated[Name, "collection holding the app definitions"] = "gql-apps"
    app_cache_enabled: Annotated[bool, "app definition cache on or off"] = True
    app_cache_ttr: Annotated[
        int, Meta(ge=100, le=86_400_000), "time after which a cached app is looked at again, in ms"
    ] = 60_000
    default_limit: Annotated[int, Meta(ge=1, le=1_000_000), "limit of queries that give none"] = 100
    max_limit: Annotated[
        int, Meta(ge=1, le=1_000_000), "highest limit that a query may ask for"
    ] = 1000
    count_time_limit: Annotated[
        int,
        Meta(ge=1, le=86_400_000),
        "time limit of `totalCount`, in ms; it is null with an error after that",
    ] = 500
    cursor_key: Annotated[
        CursorSecret | None,
        "key that cursors of connections are encrypted with, the same on all instances; without "
        "it one is made and stored in the database",
    ] = None
    previous_cursor_key: Annotated[
        CursorSecret | None, "a second key whose cursors are accepted, for changing `cursor-key`"
    ] = None
    query_time_limit: Annotated[Milliseconds, "time limit of a query, in ms; 0 means no limit"] = 0
    verbose: Annotated[bool, "log how queries are executed"] = False
    app_def_cache_ttl: Annotated[
        int | None,
        Meta(
            extra={
                "deprecated": "use 'app-cache-enabled' and 'app-cache-ttr' instead",
                "replaced-by": "app-cache-ttr",
            }
        ),
        "deprecated; taken as `app-cache-ttr` where that is not set",
    ] = None
    limits: Annotated[GraphqlLimits, "what one query may cost"] = msgspec.field(
        default_factory=GraphqlLimits
    )
    live: Annotated[GraphqlLive, "live queries"] = msgspec.field(default_factory=GraphqlLive)
    cache: Annotated[GraphqlCache, "the cache of answers"] = msgspec.field(
        default_factory=GraphqlCache
    )
    introspection: Annotated[
        Literal["all", "authenticated", "off"] | tuple[str, ...],
        "who may read the schema: everybody, authenticated callers, no one, or roles",
    ] = "all"
    operations_only: Annotated[
        tuple[str, ...],
        "callers all of whose roles are listed run stored operations and nothing else; "
        "`$unauthenticated` is who is unknown, `$authenticated` everybody else but the root role",
    ] = ()
    explain: Annotated[
        tuple[str, ...] | None,
        "roles that see the collections, indexes and counts behind a query; without it the root "
        "role of `dbAclAuthorizer`",
    ] = None
    history_versions: Annotated[
        int, Meta(ge=0, le=10_000), "versions that are kept of each app definition; 0 keeps none"
    ] = 50
    history_size: Annotated[ByteSize, "bytes of the versions of all app definitions together"] = (
        67_108_864
    )
    json_mode: Annotated[
        Literal["standard", "canonical", "relaxed", "plain", "rest"],
        "JSON form of BSON values in results; apps may have their own",
    ] = "standard"
    serve_by_id: Annotated[
        bool, "serve apps with a `descriptor.uri` under their `_id`, too; for moved installations"
    ] = False
    max_body_size: Annotated[ByteSize, "largest request body; more is 413"] = 1_048_576
    read_preference: Annotated[
        Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"],
        "members of a replica set that queries read from",
    ] = "primary"

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Yield a problem if the default limit is higher than the maximum."""
        yield from view.compare(self, "default-limit", "max-limit")
        if self.previous_cursor_key and not self.cursor_key:
            yield view.blame(
                "/graphql/previous-cursor-key",
                "previous-cursor-key is set without cursor-key",
                "set cursor-key, too",
            )


class GraphAppsInitializer(PluginConfig, frozen=True):
    """Caches all apps at start; without it each app is cached at its first request."""

    section_name: ClassVar[str] = "graphAppsInitializer"
    enabled: Annotated[bool, "whether the plugin is on"] = True


class GraphAppsUpdater(PluginConfig, frozen=True):
    """Looks for changed and deleted apps every `graphql.app-cache-ttr`."""

    section_name: ClassVar[str] = "graphAppsUpdater"
    enabled: Annotated[bool, "whether the plugin is on"] = True
