"""Text search in stored aggregations, where a permission hides a part of the index.

A search uses everything that its index contains, regardless of what is shown afterwards. A caller
who chooses the words could find out, one word after another, what the hidden properties contain.
The author's own words reveal only what the author chose to reveal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.exchange.errors import SecurityViolation
from docgraph.rest.call import RestCall
from docgraph.store.administration import Administration
from docgraph.store.guard.shown import Shown, is_shown
from docgraph.variables import REST

_TEXT: Final = "$text"
_PATHS: Final = frozenset({"path", "defaultPath"})
_ANY_PATH: Final = frozenset({"queryString", "like"})  # they name properties in their own syntax


async def check_text_search(call: RestCall, source: Any, shown: Shown) -> None:
    """Reject `$text` with words of the caller, unless everything in its index is shown."""
    if not any(map(_has_variable, _find_values(source, _TEXT))):
        return
    indexes = await Administration(call.context.store).list_indexes(
        call.db, call.collection, call.exchange.deadline
    )
    held = [path for index in indexes for path in index.get("weights", ())]
    if not all(is_shown(path, shown) for path in held):
        raise SecurityViolation("the search would tell properties that this permission hides")


def searches_hidden(body: Any, shown: Shown) -> bool:
    """Check if the body of `$search`, or of a similar stage, uses a property that is not shown."""
    paths = [path for key in _PATHS for path in _find_values(body, key)]
    named = any(True for key in _ANY_PATH for _ in _find_values(body, key))
    return named or not paths or not all(_is_open(path, shown) for path in paths)


def _is_open(path: Any, shown: Shown) -> bool:
    if isinstance(path, list):
        return all(_is_open(one, shown) for one in path)
    if isinstance(path, Mapping):  # with an analyzer of its own, or a wildcard
        path = path.get("value")
    return isinstance(path, str) and is_shown(path, shown)


def _has_variable(value: Any) -> bool:
    return any(True for _ in _find_values(value, REST.argument))


def _find_values(value: Any, wanted: str) -> Iterator[Any]:
    """Return the values under this key, at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == wanted:
                yield inner
            yield from _find_values(inner, wanted)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_values(inner, wanted)
