"""Stages and conditions that can never work where they stand, whatever a caller supplies.

Only what is certainly before a stage counts: an optional stage may be left out, and so may a sort
whose directions come from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.variables.compilation import Place, Vocabulary, render_place
from docgraph.variables.errors import Flaw

__all__ = ["find_misplaced"]

_FIRST: Final = frozenset({"$documents", "$geoNear", "$search", "$searchMeta", "$vectorSearch"})
_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_NEAR: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
_NOT_FIRST: Final = "must be the first stage of a pipeline on a collection"
_USE_STAGE: Final = "use the stage $geoNear, or $geoWithin"


def find_misplaced(stages: Any, vocabulary: Vocabulary) -> list[Flaw]:
    """The flaws of a pipeline as it is written, each with its place."""
    return [*_Walk(vocabulary).find_in_stages(stages, (), set())]


class _Walk:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def find_in_stages(self, stages: Any, where: Place, before: set[str]) -> Iterator[Flaw]:
        """`before` are the names of the stages that are certainly run before these."""
        for index, stage in enumerate(stages if isinstance(stages, list) else ()):
            yield from self._find_in_entry(stage, (*where, index), before)

    def _find_in_entry(self, stage: Any, where: Place, before: set[str]) -> Iterator[Flaw]:
        if not isinstance(stage, Mapping) or len(stage) != 1:
            return
        ((name, body),) = stage.items()
        here = (*where, name)
        if name == self._vocabulary.optional:
            for index, branch in enumerate(body if isinstance(body, list) else ()):
                find = self.find_in_stages if isinstance(branch, list) else self._find_in_entry
                if index > 0:  # behind the names
                    yield from find(branch, (*here, index), {*before})
            return
        yield from self._find_in_stage(name, body, here, before)
        if name != "$sort" or not self._has_placeholder(body):
            before.add(_rename_empty(name, body))

    def _find_in_stage(
        self, name: str, body: Any, where: Place, before: set[str]
    ) -> Iterator[Flaw]:
        # The database runs $geoNear behind a stage that does nothing.
        hindering = before - {"$skip", ""} if name == "$geoNear" else before
        if name in _FIRST and hindering:
            yield Flaw(render_place(where), _NOT_FIRST)
        if name == "$match":
            yield from self._find_in_filter(body, where, is_first=not before)
        if not isinstance(body, Mapping):
            return
        if name == "$facet":
            for key, nested in body.items():
                yield from self.find_in_stages(nested, (*where, key), {name})
        elif name in ("$lookup", "$unionWith"):
            is_joined = "localField" in body  # by a condition that comes first
            inner = {"$match"} if is_joined else set[str]()
            yield from self.find_in_stages(body.get("pipeline"), (*where, "pipeline"), inner)

    def _find_in_filter(self, body: Any, where: Place, *, is_first: bool) -> Iterator[Flaw]:
        if isinstance(body, list):
            for index, one in enumerate(body):
                yield from self._find_in_filter(one, (*where, index), is_first=is_first)
        for key, value in body.items() if isinstance(body, Mapping) else ():
            here = (*where, key)
            if key == "$text" and not is_first:
                yield Flaw(render_place(here), f"a $match with $text {_NOT_FIRST}")
            elif key in _LOGICAL or key == self._vocabulary.optional:
                yield from self._find_in_filter(value, here, is_first=is_first)
            elif key[:1] != "$":
                yield from _find_near(value, here)

    def _has_placeholder(self, value: Any) -> bool:
        if not isinstance(value, Mapping):
            return False
        return bool(self._vocabulary.operators & value.keys()) or any(
            map(self._has_placeholder, value.values())
        )


def _find_near(condition: Any, where: Place) -> Iterator[Flaw]:
    for key, value in condition.items() if isinstance(condition, Mapping) else ():
        here = (*where, key)
        if key in _NEAR:
            yield Flaw(render_place(here), f"{key} cannot stand in a $match", _USE_STAGE)
        elif key in ("$not", "$elemMatch"):
            yield from _find_near(value, here)


def _rename_empty(name: str, body: Any) -> str:
    """The name of a stage; none for a `$match` that may turn out to be empty."""
    is_sure = isinstance(body, Mapping) and any(key[:1] != "$" for key in body)
    return "" if name == "$match" and not is_sure else name
