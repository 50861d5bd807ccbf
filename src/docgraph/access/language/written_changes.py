"""Changes that a request to the REST API writes, computed once for all rules that need them."""

from __future__ import annotations

from typing import Any

from docgraph.access.language.missing import NoValue
from docgraph.exchange import DataRequest, ResourceType, WriteMode
from docgraph.store.guard.steps import Steps
from docgraph.store.guard.write_effects import (
    StoredValues,
    WriteEffects,
    read_body,
    read_filter,
    read_stage,
)


class WrittenChanges:
    """The changes of a request; for a body that is an array, the service defines its elements."""

    __slots__ = ("body", "contains", "effects", "written")

    def __init__(self, body: Any, method: str = "", request: DataRequest | None = None) -> None:
        is_pipeline = method == "PATCH" and isinstance(body, list)
        parts = body if isinstance(body, list) else [body]
        filters = _list_filters(method, request) if request is not None else []
        seeds = (one for filter in filters for one in read_filter(filter) if one.path != "_id")
        read_part = read_stage if is_pipeline else read_body
        self.body = body
        self.effects = WriteEffects(map(read_part, parts), seeds, is_pipeline=is_pipeline)
        self.contains = self.effects.contains
        self.written = self.effects.written

    def find(self, key: Steps) -> StoredValues:
        """Return every value that is stored at the key; raises `NoValue` if that is uncertain."""
        values = self.effects.find(key)
        if values is None:
            raise NoValue("the stored value cannot be determined from the request")
        return values


def _list_filters(method: str, request: DataRequest) -> list[Any]:
    """Return the filters whose equalities a new document starts with; the path has its id."""
    resource, parameters = request.resource, request.parameters
    is_document = resource is not None and resource.type is ResourceType.DOCUMENT
    if method != "PATCH" or not is_document or parameters.mode is not WriteMode.UPSERT:
        return []
    return [parameters.shardkey, parameters.filter]
