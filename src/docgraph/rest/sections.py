"""Configuration section of the REST API: `mongo`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from docgraph.config.section import ByteSize, Milliseconds, Section, ServiceConfig, Uri, View
from docgraph.exchange.errors import Problem
from docgraph.store.sections import MongoMount

EtagPolicy = Literal["REQUIRED", "REQUIRED_FOR_DELETE", "OPTIONAL"]


class EtagCheckPolicy(Section, frozen=True):
    """When a write has to carry the etag of what it changes."""

    db: Annotated[EtagPolicy, "for databases"] = "REQUIRED_FOR_DELETE"
    coll: Annotated[EtagPolicy, "for collections"] = "REQUIRED_FOR_DELETE"
    doc: Annotated[EtagPolicy, "for documents"] = "OPTIONAL"


DEFAULT_PAGESIZE: Final = 100


class Mongo(ServiceConfig, frozen=True):
    """The REST API for databases, collections and documents."""

    section_name: ClassVar[str] = "mongo"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[Uri, "base path of the REST API"] = "/"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = True
    mongo_mounts: Annotated[
        tuple[MongoMount, ...],
        Meta(min_length=1),
        "which databases and collections are served, and where",
    ] = (MongoMount(what="/docgraph", where="/"),)
    default_pagesize: Annotated[
        int, Meta(ge=0, le=100_000), "documents of a page when the request does not say"
    ] = DEFAULT_PAGESIZE
    max_pagesize: Annotated[int, Meta(ge=1, le=100_000), "most documents of a page"] = 1000
    etag_check_policy: Annotated[EtagCheckPolicy, "when a write has to carry an etag"] = (
        msgspec.field(default_factory=EtagCheckPolicy)
    )
    query_time_limit: Annotated[Milliseconds, "time limit of a read, in ms; 0 means no limit"] = 0
    aggregation_time_limit: Annotated[
        Milliseconds, "time limit of an aggregation, in ms; 0 means no limit"
    ] = 0
    aggregation_check_operators: Annotated[
        bool, "refuse operators in the variables of an aggregation"
    ] = True
    local_cache_enabled: Annotated[
        bool, "keep the metadata of databases and collections in memory"
    ] = True
    local_cache_ttl: Annotated[Milliseconds, "time that metadata is kept, in ms"] = 60_000
    schema_cache_enabled: Annotated[bool, "keep JSON schemas in memory"] = True
    schema_cache_ttl: Annotated[Milliseconds, "time that a JSON schema is kept, in ms"] = 60_000
    max_body_size: Annotated[ByteSize, "largest request body; more is 413"] = 16_777_216

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Report a default page size above the maximum page size."""
        yield from view.compare(self, "default-pagesize", "max-pagesize")
