"""What an update that creates its document takes over from the filter that found none.

MongoDB begins such a document with the equalities of the filter, so that a caller writes them just
as the body. Ranges and other conditions leave nothing behind; of what is neither, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.codec.types import Regex
from docgraph.exchange import DataRequest, ResourceType, WriteMode

__all__ = ["UNCLEAR", "Seed", "find_seeds"]

Seed = tuple[str, Any]  # a path, and the value there or UNCLEAR

UNCLEAR: Final = object()
_ONE_VALUE: Final = frozenset({"$in", "$all"})
_LEAVING_NOTHING: Final = frozenset(
    {"$gt", "$gte", "$lt", "$lte", "$ne", "$nin", "$exists", "$type", "$mod", "$regex", "$options"}
)


def find_seeds(method: str, request: DataRequest) -> Iterator[Seed]:
    """Every property that the filter could put into a new document."""
    resource, parameters = request.resource, request.parameters
    is_document = resource is not None and resource.type is ResourceType.DOCUMENT
    if method != "PATCH" or not is_document or parameters.mode is not WriteMode.UPSERT:
        return
    for filter in (parameters.shardkey, parameters.filter):
        if filter is not None:
            yield from _find_in(filter)


def _find_in(filter: Any) -> Iterator[Seed]:
    for key, condition in filter.items() if isinstance(filter, Mapping) else ():
        if key in ("$and", "$or") and isinstance(condition, list | tuple):
            found = [seed for branch in condition for seed in _find_in(branch)]
            is_certain = key == "$and" or len(condition) == 1
            yield from found if is_certain else ((path, UNCLEAR) for path, _ in found)
        elif key[:1] != "$" and key != "_id":  # the id is that of the path
            yield from ((key, value) for value in _find_values(condition))


def _find_values(condition: Any) -> Iterator[Any]:
    if isinstance(condition, Regex):
        return
    if not isinstance(condition, Mapping) or not any(key[:1] == "$" for key in condition):
        yield condition
        return
    for operator, operand in condition.items():
        if operator == "$eq":
            yield operand
        elif operator in _ONE_VALUE and isinstance(operand, list | tuple) and len(operand) == 1:
            yield operand[0]
        elif operator not in _LEAVING_NOTHING:
            yield UNCLEAR
