"""Shapes of stage arguments, known operators: find stages that can never work, without a database.

A placeholder fits everywhere: what a caller supplies is checked when it arrives. The table has what
people get wrong most; the rest is left to the database (`CollectionStats.find_refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

from docgraph.config.nearest import find_nearest


@dataclass(frozen=True, slots=True)
class StagePart:
    """A stage and its place; a part of a filter is a `$match` of its own.

    `is_alone`: it has no placeholders, no other part is around it, and it can be run by itself.
    """

    where: str
    stage: Mapping[str, Any] = field(hash=False)
    is_alone: bool


def find_shape(part: StagePart) -> str | None:
    """Return the shape that the arguments of a stage need, if these cannot work."""
    ((name, body),) = part.stage.items()
    if name == "$match":  # the parts of a filter are checked one by one
        name = part.where.rpartition(".")[2]
        body = body.get(name) if isinstance(body, Mapping) else None
    shape = _SHAPES.get(name)
    return None if shape is None or _is_supplied(body) or shape[1](body) else shape[0]


def _is_supplied(value: Any) -> bool:
    return isinstance(value, Mapping) and not _PLACEHOLDERS.isdisjoint(value)


def _is_whole(value: Any, least: int) -> bool:
    if _is_supplied(value):
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value == value // 1 and value >= least


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 1 and value[0] == "$"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value[:1] not in ("", "$")


def _is_filled(body: Any) -> bool:
    return isinstance(body, Mapping) and bool(body)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda body: isinstance(body, Mapping) and all(name in body for name in names)


def _is_unwind(body: Any) -> bool:
    return _is_path(body.get("path") if isinstance(body, Mapping) else body)


def _is_unset(body: Any) -> bool:
    names = body if isinstance(body, list) else [body]
    return bool(names) and all(map(_is_name, names))


def _is_sample(body: Any) -> bool:
    return isinstance(body, Mapping) and _is_whole(body.get("size"), 1)


def _is_lookup(body: Any) -> bool:
    if not _has("as")(body) or ("localField" in body) != ("foreignField" in body):
        return False
    names = [body[key] for key in ("as", "localField", "foreignField") if key in body]
    if not all(map(_is_name, names)) or ("let" in body and "pipeline" not in body):
        return False
    return "pipeline" in body or _has("from", "localField")(body)


def _is_sort(body: Any) -> bool:
    directions = body.values() if _is_filled(body) else [{}]
    special = [value for value in directions if isinstance(value, Mapping)]
    return all(_is_supplied(value) or value.get("$meta") in _METAS for value in special)


def _is_text(body: Any) -> bool:
    search = body.get("$search") if isinstance(body, Mapping) else None
    return isinstance(search, str) or _is_supplied(search)


def _is_redact(body: Any) -> bool:
    return _is_path(body) or (_is_filled(body) and next(iter(body))[:1] == "$")


def _is_document(body: Any) -> bool:
    return _is_path(body) or isinstance(body, Mapping)


def _is_merged(body: Any) -> bool:
    return body is None or isinstance(body, list) or _is_document(body)


def _is_documents(body: Any) -> bool:
    if isinstance(body, list):
        return all(isinstance(item, Mapping) for item in body)
    return _is_filled(body) and next(iter(body))[:1] == "$"


def _is_meta(body: Any) -> bool:
    return isinstance(body, str) and body in (*_METAS, *_SHOWN_METAS)


def _is_root(body: Any) -> bool:
    return _has("newRoot")(body) and _is_document(body["newRoot"])


_PLACEHOLDERS: Final = frozenset({"$arg", "$fk", "$ifarg", "$var", "$ifvar"})
# Metadata to sort by; the last ones are of searches.
_METAS: Final = (
    *("textScore", "randVal", "geoNearDistance"),
    *("searchScore", "vectorSearchScore", "score"),
)
_SHOWN_METAS: Final = (
    *("geoNearPoint", "indexKey", "recordId", "sortKey", "scoreDetails", "searchHighlights"),
    *("searchRootDocumentId", "searchScoreDetails", "searchSequenceToken"),
    *("timeseriesBucketMinTime", "timeseriesBucketMaxTime"),
)
_DOCUMENT: Final = "an object, or an expression that makes one"
_FILLED: Final = ("must be an object with one field or more", _is_filled)
_SHAPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "$limit": ("must be a whole number above 0", lambda body: _is_whole(body, 1)),
    "$skip": ("must be a whole number, 0 or more", lambda body: _is_whole(body, 0)),
    "$sample": ("must be an object with size, a whole number above 0", _is_sample),
    "$count": (
        "must be the name of a field, without $ and dots",
        lambda body: _is_name(body) and "." not in body,
    ),
    "$unwind": ('must be the path of a field such as "$items", or an object with path', _is_unwind),
    "$unset": ("must be the name of a field, or an array of names", _is_unset),
    "$sort": ('must be an object of fields with 1, -1 or {"$meta": "textScore"}', _is_sort),
    "$text": ("must be an object with $search, a string", _is_text),
    "$geoNear": ("must be an object with near and distanceField", _has("near", "distanceField")),
    "$redact": ("must be an expression that makes $$KEEP, $$PRUNE or $$DESCEND", _is_redact),
    "$replaceWith": (f"must be {_DOCUMENT}", _is_document),
    "$mergeObjects": (f"must be {_DOCUMENT}", _is_merged),
    "$meta": ('must be the name of metadata such as "textScore"', _is_meta),
    "$documents": ("must be an array of objects, or an expression that makes one", _is_documents),
    "$search": _FILLED,
    "$searchMeta": _FILLED,
    "$vectorSearch": _FILLED,
    "$project": _FILLED,
    "$addFields": _FILLED,
    "$set": _FILLED,
    "$facet": _FILLED,
    "$group": ("must be an object with _id", _has("_id")),
    "$replaceRoot": (f"must be an object with newRoot, {_DOCUMENT}", _is_root),
    "$bucket": ("must be an object with groupBy and boundaries", _has("groupBy", "boundaries")),
    "$bucketAuto": ("must be an object with groupBy and buckets", _has("groupBy", "buckets")),
    "$lookup": (
        "must be an object with as, and a pipeline or from, localField and foreignField",
        _is_lookup,
    ),
    "$graphLookup": (
        "must be an object with from, startWith, connectFromField, connectToField and as",
        _has("from", "startWith", "connectFromField", "connectToField", "as"),
    ),
}


OperatorKind = Literal["filter", "condition", "expression"]


@dataclass(frozen=True, slots=True)
class UnknownOperator:
    """An operator of a template that docgraph does not know, and its location.

    `ours` has the operators that docgraph itself accepts there, in addition to those of MongoDB.

    The operators of MongoDB are known up to version 8, to find typing errors. The store decides
    whether an operator may be used; this module only knows whether it exists.
    """

    where: str
    name: str
    kind: OperatorKind
    ours: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def hint(self) -> str | None:
        """The most similar known operator."""
        return _find_hint(self.name, self.kind, self.ours)


@lru_cache(maxsize=1024)  # the same mistake often occurs in many places
def _find_hint(name: str, kind: OperatorKind, ours: frozenset[str]) -> str | None:
    nearest = find_nearest(name, ours | _KNOWN[kind])
    return f"did you mean {nearest}?" if nearest else None


def is_known(name: str, kind: OperatorKind) -> bool:
    """Check if docgraph knows the operator in such a position."""
    return name in _KNOWN[kind]


def _names(text: str) -> frozenset[str]:
    return frozenset(f"${name}" for name in text.split())


_FILTER: Final = _names(
    "and or nor expr text where jsonSchema comment alwaysTrue alwaysFalse sampleRate"
)
_CONDITION: Final = _names(
    """
    eq ne gt gte lt lte in nin not exists type mod regex options all elemMatch size
    bitsAllClear bitsAllSet bitsAnyClear bitsAnySet
    geoWithin geoIntersects near nearSphere within geometry maxDistance minDistance uniqueDocs
    ref id db where expr
    """
)
_EXPRESSION: Final = _names(
    """
    abs add ceil divide exp floor ln log log10 mod multiply pow round sqrt subtract trunc
    arrayElemAt arrayToObject concatArrays filter first firstN in indexOfArray isArray last lastN
    map maxN minN objectToArray range reduce reverseArray size slice sortArray zip
    bitAnd bitNot bitOr bitXor and not or cmp eq gt gte lt lte ne cond ifNull switch
    accumulator function binarySize bsonSize
    dateAdd dateDiff dateFromParts dateFromString dateSubtract dateToParts dateToString dateTrunc
    dayOfMonth dayOfWeek dayOfYear hour isoDayOfWeek isoWeek isoWeekYear millisecond minute month
    second week year
    literal const getField rand sampleRate toHashedIndexKey setField unsetField mergeObjects
    allElementsTrue anyElementTrue setDifference setEquals setIntersection setIsSubset setUnion
    concat indexOfBytes indexOfCP ltrim regexFind regexFindAll regexMatch replaceOne replaceAll
    rtrim split strLenBytes strLenCP strcasecmp substr substrBytes substrCP toLower toUpper trim
    meta tsIncrement tsSecond
    sin cos tan asin acos atan atan2 asinh acosh atanh sinh cosh tanh
    degreesToRadians radiansToDegrees
    convert isNumber toBool toDate toDecimal toDouble toInt toLong toObjectId toString toUUID type
    let avg max min sum stdDevPop stdDevSamp push addToSet top topN bottom bottomN count median
    percentile
    rank denseRank documentNumber shift expMovingAvg derivative integral linearFill locf
    covariancePop covarianceSamp
    """
)
_KNOWN: Final[dict[OperatorKind, frozenset[str]]] = {
    "filter": _FILTER,
    "condition": _CONDITION,
    "expression": _EXPRESSION,
}
