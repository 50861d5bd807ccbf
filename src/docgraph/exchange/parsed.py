"""Parsed request: read once by the service, then authorized and executed.

A service's `parse` builds it between authentication and authorization. Rules check this value and
the service executes it: two parsers of the same text could differ one day. A rejection by the
service is stored here, too, and shown only to callers that were admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docgraph.exchange.data import Resource
from docgraph.exchange.errors import DocgraphError

SortOrder = tuple[tuple[str, Any], ...]


class WriteMode(StrEnum):
    """`insert` only creates, `update` only changes, `upsert` does what is needed."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The request as the service parsed it; `refusal` is its error for admitted callers.

    `is_authorized_later`: no allower has to approve it, because the service has each message of the
    connection authorized as a request of its own.
    """

    refusal: DocgraphError | None = None
    is_authorized_later: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DataParameters:
    """The parameters of a request for documents; None where it has none.

    `sort` None means the default order, `mode` None the one of the method.
    """

    filter: Mapping[str, Any] | None = None
    shardkey: Mapping[str, Any] | None = None
    sort: SortOrder | None = None
    keys: Mapping[str, Any] | None = None
    hint: Any = None
    mode: WriteMode | None = None


@dataclass(frozen=True, slots=True)
class DataRequest(Parsed):
    """A request to the REST API.

    `resource` has the id of a document as a typed value; None: nothing is mounted there. `segments`
    are the path that is really served: `/users/eve?id_type=NULL` is `/users/_null`. `is_retyped`:
    without its parameters the path would address another document. With a `refusal`, ids are as in
    the URL and parameters have their defaults.
    """

    resource: Resource | None = None
    segments: tuple[str, ...] = ()
    is_retyped: bool = False
    parameters: DataParameters = field(default_factory=DataParameters)
