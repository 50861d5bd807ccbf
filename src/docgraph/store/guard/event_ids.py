"""Event ids (resume tokens): hide the id of an event if the `_id` of its document is hidden.

The id of an event contains the `_id` of its document. The database needs it in the event after all
stages, so it cannot be removed before those of the author. The author's stages are checked instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.shown import Shown, is_shown

_ID: Final = "_id"
# They are, or may be, the whole event.
_WHOLE: Final = frozenset({"$$ROOT", "$$CURRENT", "$getField"})


def hides_ids(shown: Shown | None) -> bool:
    """Check if the `_id` of documents, or a part of it, is hidden."""
    return bool(shown) and not is_shown(_ID, shown or {})


def check_ids_unread(stages: Iterable[Mapping[str, Any]], shown: Shown | None) -> None:
    """Reject stages that could reveal the id of an event, by a copy or by a comparison."""
    if hides_ids(shown) and any(map(_reads_id, stages)):
        raise SecurityViolation(
            "the stages use the _id of events, which tells that of documents",
            hint="use documentKey and fullDocument",
        )


def _reads_id(value: Any) -> bool:
    if isinstance(value, str):
        return _names_id(value)
    if isinstance(value, Mapping):
        return any(
            (_names_id(key) and not _only_keeps(key, inner)) or _reads_id(inner)
            for key, inner in value.items()
        )
    return isinstance(value, list | tuple) and any(map(_reads_id, value))


def _names_id(text: str) -> bool:
    first = text.partition(".")[0]
    return first in _WHOLE or first.removeprefix("$") == _ID


def _only_keeps(key: str, value: Any) -> bool:
    """Check for `{"_id": 1}` in a projection, or a filter that is `MATCH_NOTHING`."""
    if isinstance(value, Mapping):
        return key == _ID and dict(value) == {"$in": []}
    return key == _ID and isinstance(value, bool | int | float) and value == 1
