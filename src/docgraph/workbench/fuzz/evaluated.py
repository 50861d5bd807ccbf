"""Evaluated properties: which ones the expressions of a definition compute with.

Such an expression fails for a value of another kind. If only a hidden row has one, the failure of
the request reveals that row. So documents are generated that pass, and a hidden one that does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.store.guard.references import READING_MORE
from docgraph.workbench.fuzz.collection_shape import PropertyShape, mark_path

_FIELD: Final = re.compile(r"\$([A-Za-z_][\w.]*)")
# They return their input unchanged, so that the operator around them fails.
_PASSING: Final = frozenset({"$ifNull", "$cond", "$first", "$last", "$min", "$max"})
# Their content refers to other documents, or is not an expression.
_UNREAD: Final = READING_MORE | {"$arg", "$fk", "$var", "$literal"}
_LENIENT: Final = frozenset({"$sum", "$avg"})  # they skip values that are not numbers
_NUMERIC: Final = _LENIENT | frozenset(
    "$add $subtract $multiply $divide $mod $abs $ceil $floor $round $trunc $sqrt $pow $exp $ln "
    "$log $log10".split()
)
_PARSED: Final = {
    **dict.fromkeys(("$toInt", "$toLong", "$toDouble", "$toDecimal", "$convert"), "digits"),
    **dict.fromkeys(("$toDate", "$dateFromString"), "dateText"),
    "$toObjectId": "idText",
}
_STRICT: Final = frozenset(
    "$concat $toUpper $toLower $toString $substr $substrCP $substrBytes $strLenCP $strLenBytes "
    "$split $trim $ltrim $rtrim $indexOfCP $indexOfBytes $regexMatch $regexFind $regexFindAll "
    "$replaceOne $replaceAll $size $arrayElemAt $concatArrays $slice $filter $map $reduce "
    "$reverseArray $setUnion $setIntersection $setDifference $arrayToObject $indexOfArray "
    "$year $month $week $hour $minute $second $millisecond $dayOfMonth $dayOfWeek $dayOfYear "
    "$dateToString $dateToParts $dateTrunc $dateAdd $dateSubtract $dateDiff".split()
)


def mark_evaluated(shape: PropertyShape, source: Any, joined: Mapping[str, PropertyShape]) -> None:
    """Mark the properties that expressions in a filter or a stage read.

    `joined` has the shapes of documents that `$lookup` has put into these, by property.
    """
    for path, operator in _find_fields(source, ""):
        first, _, rest = path.partition(".")
        node = (
            mark_path(joined[first], rest) if rest and first in joined else mark_path(shape, path)
        )
        if operator in _NUMERIC:
            node.kind = node.kind or "int"
        node.text = node.text or _PARSED.get(operator, "")
        is_strict = operator in _STRICT or operator in _PARSED or operator in _NUMERIC - _LENIENT
        node.is_evaluated = node.is_evaluated or is_strict


def _find_fields(value: Any, operator: str) -> Iterator[tuple[str, str]]:
    """Yield the `$paths` in a value, each with the operator around it."""
    if isinstance(value, str) and (found := _FIELD.fullmatch(value)):
        yield found[1], operator
    elif isinstance(value, list):
        for item in value:
            yield from _find_fields(item, operator)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _UNREAD:
                is_operator = key[:1] == "$" and key not in _PASSING
                yield from _find_fields(inner, key if is_operator else operator)
