"""What a request to the REST API writes, worked out once for all rules that ask.

`written.py` knows the paths, `stored.py` the values, `seeds.py` what comes from the filter.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple

from docgraph.access.language.seeds import UNCLEAR, Seed
from docgraph.access.language.steps import EVERYTHING, Steps, Written, split_key
from docgraph.access.language.stored import (
    find_in_document,
    find_in_set_stage,
    find_plain,
    has_key,
)
from docgraph.access.language.texts import NoValue
from docgraph.access.language.written import written_paths

__all__ = ["Changes", "Values"]

_MOST_PATHS: Final = 5_000  # different ones; every rule looks at all of them


class Values(NamedTuple):
    """The values that are stored at a key; `is_everywhere`: every document gets one."""

    found: tuple[Any, ...]
    is_everywhere: bool


class Changes:
    """What a request writes; of a body that is an array, the service says what its elements are.

    `written` are the different places, or everything where there are too many of them.
    """

    __slots__ = ("_parts", "_seeds", "_values", "body", "is_pipeline", "written")

    def __init__(self, body: Any, *, is_update: bool = False, seeds: tuple[Seed, ...] = ()) -> None:
        self.body = body
        self.is_pipeline = is_update and isinstance(body, list)
        self._parts = body if isinstance(body, list) else [body]
        self._seeds = seeds
        self._values: dict[Steps, Values | None] = {}
        self.written = self._find_written()

    def find(self, key: Steps) -> Values:
        """Every value that is stored at the key; raises `NoValue` where that cannot be told."""
        if key not in self._values:
            self._values[key] = self._find(key)
        values = self._values[key]
        if values is None:
            raise NoValue("what is stored cannot be told from the request")
        return values

    def contains(self, key: Steps) -> bool:
        """Whether the key is there, flat or nested, in every document that is written."""
        if any(value is not UNCLEAR and has_key({path: value}, key) for path, value in self._seeds):
            return True
        if self.is_pipeline:
            values = self._find(key)
            return values is not None and bool(values.found)
        return bool(self._parts) and all(has_key(part, key) for part in self._parts)

    def _find(self, key: Steps) -> Values | None:
        seeded = [value for seed in self._seeds for value in find_plain(dict([seed]), key)]
        find = find_in_set_stage if self.is_pipeline else find_in_document
        found = [list(find(part, key)) for part in self._parts]
        values = (*seeded, *(value for several in found for value in several))
        if any(value is UNCLEAR for value in values):
            return None
        # Stages follow each other on one document: it is enough that one of them stores it.
        is_everywhere = any(found) if self.is_pipeline else bool(found) and all(found)
        return Values(values, bool(seeded) or is_everywhere)

    def _find_written(self) -> tuple[Written, ...]:
        seeded = (
            [Written(split_key(path), is_exact=False)]
            if value is UNCLEAR
            else written_paths({path: value}, is_stage=False)
            for path, value in self._seeds
        )
        written = (written_paths(part, is_stage=self.is_pipeline) for part in self._parts)
        found: dict[Written, None] = {}
        for one in chain.from_iterable(chain(seeded, written)):
            found[one] = None
            if len(found) > _MOST_PATHS:
                return (EVERYTHING,)
        return tuple(found)
