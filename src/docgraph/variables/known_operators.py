"""Known operators of MongoDB, up to version 8: distinguish typing errors from newer operators.

The store decides whether an operator may be used; this module only knows whether it exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from docgraph.config.nearest import find_nearest

OperatorKind = Literal["filter", "condition", "expression"]


@dataclass(frozen=True, slots=True)
class UnknownOperator:
    """An operator of a template that docgraph does not know, and its location.

    `ours` has the operators that docgraph itself accepts there, in addition to those of MongoDB.
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
