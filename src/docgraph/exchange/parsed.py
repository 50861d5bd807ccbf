"""A request as its service will carry it out, read once, before anybody judges it.

A service's `parse` makes it between authentication and authorization. Rules judge this value and
the service carries it out: a second reading of the same text would be another one some day. What
the service refuses stands here too, and is told only to callers who were admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docgraph.exchange.data import Resource
from docgraph.exchange.errors import DocgraphError

__all__ = ["DataParameters", "DataRequest", "Order", "Parsed", "WriteMode"]

Order = tuple[tuple[str, Any], ...]


class WriteMode(StrEnum):
    """`insert` only creates, `update` only changes, `upsert` does what is needed."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a service has read; `refusal` is what it answers to callers who may ask at all."""

    refusal: DocgraphError | None = None


@dataclass(frozen=True, slots=True)
class DataParameters:
    """What a request says about the documents it is after; None where it says nothing.

    `sort` None means the default order, `mode` None the one of the method.
    """

    filter: Mapping[str, Any] | None = None
    shardkey: Mapping[str, Any] | None = None
    sort: Order | None = None
    keys: Mapping[str, Any] | None = None
    hint: Any = None
    mode: WriteMode | None = None


@dataclass(frozen=True, slots=True)
class DataRequest(Parsed):
    """A request to the REST API.

    `resource` has the id of a document as the value that it is; None: nothing is mounted there.
    `segments` are the path that is really served: `/users/eve?id_type=NULL` is `/users/_null`.
    `is_retyped`: without its parameters the path would mean another document. With a `refusal` ids
    are as they were written and parameters the default ones.
    """

    resource: Resource | None = None
    segments: tuple[str, ...] = ()
    is_retyped: bool = False
    parameters: DataParameters = field(default_factory=DataParameters)
