"""Which names of users a write could store, where they stand in another property than `_id`. Pure.

Two users of one name are none (`dbRealmAuthenticator`): whoever could give the name of an
administrator to another user would lock the administrator out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.exchange import Write

__all__ = ["Untold", "written_names"]

_STORING: Final = frozenset({"$set", "$setOnInsert", "$push", "$addToSet", "$min", "$max"})
_NAMELESS: Final = frozenset({"$unset", "$pull", "$pullAll", "$pop", "$currentDate", "$inc"})
_BY_PATH: Final = frozenset({"$set", "$addFields", "$project"})


class Untold(Exception):
    """Only the database could find out which names would be stored."""


def written_names(write: Write, property: str) -> frozenset[str]:
    """Every text that the write could store there, and perhaps some more; raises `Untold`."""
    first = property.split(".", 1)[0]
    if first == "_id":
        return frozenset()  # the database itself keeps them apart
    found = {text for document in write.documents for text in _texts(document.get(first))}
    for operator, fields in (write.update or {}).items():
        found.update(_find_in_operator(operator, fields, first))
    if any(len(stage) != 1 or _may_compute(stage, first) for stage in write.pipeline or ()):
        raise Untold
    if write.upsert:
        found.update(_texts(write.filter))  # its equalities are stored
    return frozenset(found)


def _find_in_operator(operator: str, fields: Any, first: str) -> Iterator[str]:
    for path, operand in fields.items() if isinstance(fields, Mapping) else ():
        if operator == "$rename":
            if _starts(operand, first):
                raise Untold
        elif not _starts(path, first) or operator in _NAMELESS:
            continue
        elif operator in _STORING:
            yield from _texts(operand)
        else:
            raise Untold


def _may_compute(stage: Mapping[str, Any], first: str) -> bool:
    """Whether a stage writes it; what a stage sets is an expression as likely as a text."""
    ((name, body),) = stage.items()
    if name == "$unset":
        return False
    is_by_path = name in _BY_PATH and isinstance(body, Mapping)
    return not is_by_path or any(_starts(path, first) for path in body)


def _starts(path: Any, first: str) -> bool:
    return not isinstance(path, str) or path.split(".", 1)[0] == first


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value; a name in an array finds the user, too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)
