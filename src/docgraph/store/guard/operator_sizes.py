"""What each operator makes of its operands: an upper bound of the result, and of the work for it.

Operators that bind variables (`$let`, `$map`, `$filter`, `$reduce`) are in `expression_cost`. An
operator that is in neither has no bound that we know.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf, isfinite, log2
from typing import Final

from docgraph.store.guard.number_bounds import NUMBERS
from docgraph.store.guard.operands import (
    BYTE,
    PLAIN,
    Operands,
    Result,
    Rule,
    choose,
    compare,
    compare_elements,
    scalar,
    scan,
    unknown,
    visit,
)
from docgraph.store.guard.sizes import ELEMENT, NONE, Form, Size, add, join, number, product

__all__ = ["BUILDING_TEXTS", "REFERRING", "RULES", "TAKING_NAMES"]

_REGEX: Final = 16  # how much slower a regular expression is than a search
_LARGEST_NUMBER: Final = 64  # bytes of a number, date or id as text
_FORMAT: Final = 8  # bytes that one of a date format can become
_MATCH: Final = 6 * ELEMENT  # bytes of a match without its text and groups
_COPY: Final = 1 / 4  # how much faster references are copied than looked at
_UTF8: Final = 4
_STORED_PARTS: Final = 1_000  # of a stored text, as many as elements of a stored array


def _array(operands: Operands, bytes: Form, length: Form) -> Size:
    low = min((one.low for one in operands.all), default=0)
    high = max((one.high for one in operands.all), default=0)
    return Size(bytes, length, operands.inner, low, high, operands.supplied)


# --- single values --------------------------------------------------------------------------------


def _boolean(operands: Operands) -> Result:
    return number(0, 1, supplied=operands.supplied), NONE


def _compare(operands: Operands) -> Result:
    return number(-1, 1, supplied=operands.supplied), compare(operands)


def _search_text(operands: Operands) -> Result:
    most = operands.bytes.bound()
    return number(-1, most, supplied=operands.supplied), scan(operands)


def _read_text(operands: Operands) -> Result:
    return unknown(operands), scan(operands)


def _match_pattern(operands: Operands) -> Result:
    return number(0, 1, supplied=operands.supplied), scan(operands, _REGEX)


def _count(operands: Operands) -> Result:
    return number(0, operands.get(0).length.bound(), supplied=operands.supplied), NONE


def _find_element(operands: Operands) -> Result:
    """`$in` has the array behind the value, `$indexOfArray` before it."""
    longest = join([one.length for one in operands.all[:2]])
    found = number(-1, longest.bound(), supplied=operands.supplied)
    return found, add(longest.times(PLAIN), scan(operands))


def _summarize(operands: Operands) -> Result:
    """`$sum` and its like run through an array that is their only operand."""
    return unknown(operands), NONE if len(operands.all) > 1 else visit(operands)


def _test_elements(operands: Operands) -> Result:
    return number(0, 1, supplied=operands.supplied), compare_elements(operands)


def _hash(operands: Operands) -> Result:
    return unknown(operands), scan(operands)


# --- one of several -------------------------------------------------------------------------------


def _choose_branch(operands: Operands) -> Result:
    """`$cond`: the condition itself is no result."""
    named = operands.named
    sizes = [named[key] for key in ("then", "else") if key in named] or operands.all[1:]
    return choose(Operands(sizes))


def _pick_element(operands: Operands) -> Result:
    one = operands.get(0)
    return Size(one.bytes, one.inner, one.inner, one.low, one.high, one.supplied), NONE


def _read_property(operands: Operands) -> Result:
    return (operands.named.get("input") or operands.get(0)).within(), NONE


# --- texts ----------------------------------------------------------------------------------------


def _text(operands: Operands) -> Result:
    """A text that is not longer than its operands together."""
    is_stored = len(operands.all) == 1 and operands.get(0).is_stored
    size = Size(operands.bytes, supplied=operands.supplied, is_stored=is_stored)
    return size, scan(operands)


def _to_text(operands: Operands) -> Result:
    bytes = add(operands.bytes, Form(_LARGEST_NUMBER))
    return Size(bytes, supplied=operands.supplied), scan(operands)


def _substring(unit: int) -> Rule:
    def rule(operands: Operands) -> Result:
        text, count = operands.get(0), operands.get(2)
        bytes = add(text.bytes, Form(_LARGEST_NUMBER))
        if count.is_constant and 0 <= count.high * unit < bytes.peak():
            bytes = Form(count.high * unit)
        return Size(bytes, supplied=operands.supplied), text.bytes.times(BYTE)

    return rule


def _split(operands: Operands) -> Result:
    text, delimiter = operands.get(0), operands.get(1)
    length = add(text.bytes.times(1 / len(delimiter.text or " ")), Form(1))
    if text.is_stored and not length.parts:
        length = Form(min(length.constant, _STORED_PARTS))
    size = Size(add(text.bytes, length.times(ELEMENT)), length, supplied=operands.supplied)
    return size, scan(operands)


def _replace_one(operands: Operands) -> Result:
    text, new = operands.name("input"), operands.name("replacement")
    return Size(add(text.bytes, new.bytes), supplied=operands.supplied), scan(operands)


def _replace_all(operands: Operands) -> Result:
    text, old, new = (operands.name(key) for key in ("input", "find", "replacement"))
    times = add(text.bytes.times(1 / len(old.text or " ")), Form(1))
    bytes = add(text.bytes, product(times, new.bytes))
    return Size(bytes, supplied=operands.supplied), add(scan(operands), bytes.times(BYTE))


def _find_matches(is_every: bool) -> Rule:
    """Texts and groups of matches; a group that looks ahead can hold the rest each time."""

    def rule(operands: Operands) -> Result:
        text, pattern = operands.name("input").bytes, operands.name("regex").text
        if pattern is None:
            groups: float = ceil(text.peak())
        else:
            groups = pattern.count("(") - pattern.count("(?:")
        matches = add(text, Form(1)) if is_every else Form(1)
        overlap = is_every and (pattern is None or "(?" in pattern)
        copies = product(matches, text) if overlap else text
        bytes = add(copies.times(groups + 1), matches.times(2 * groups * ELEMENT + _MATCH))
        length = join([matches, Form(max(groups, 3))])
        size = Size(bytes, length, length, supplied=operands.supplied)
        return size, add(scan(operands, _REGEX), bytes.times(BYTE))

    return rule


def _format_date(operands: Operands) -> Result:
    bytes = add(operands.bytes.times(_FORMAT), Form(_LARGEST_NUMBER))
    return Size(bytes, supplied=operands.supplied), scan(operands)


def _convert(operands: Operands) -> Result:
    size, _ = choose(operands)
    return size._replace(bytes=add(size.bytes, Form(_LARGEST_NUMBER))), scan(operands)


# --- arrays and documents -------------------------------------------------------------------------


def _concatenate(operands: Operands) -> Result:
    return _array(operands, operands.bytes, operands.length), visit(operands).times(_COPY)


def _unite(operands: Operands) -> Result:
    return _array(operands, operands.bytes, operands.length), visit(operands)


def _unite_sets(operands: Operands) -> Result:
    return _unite(operands)[0], compare_elements(operands)


def _same_array(operands: Operands) -> Result:
    """Some or all of the elements of the first operand, or of the one that is named `input`."""
    one = operands.named.get("input") or operands.get(0)
    return one._replace(text=None, supplied=operands.supplied), visit(operands)


def _intersect(operands: Operands) -> Result:
    return choose(operands)[0], compare_elements(operands)


def _subtract(operands: Operands) -> Result:
    return _same_array(operands)[0], compare_elements(operands)


def _sort(operands: Operands) -> Result:
    size, _ = _same_array(operands)
    turns = 1 + log2(max(size.length.peak(), 2))
    return size, compare_elements(operands).times(turns)


def _slice(operands: Operands) -> Result:
    return _cut(operands.get(0), operands.all[1:], operands)


def _first_n(operands: Operands) -> Result:
    return _cut(operands.name("input"), [operands.name("n")], operands)


def _least_n(operands: Operands) -> Result:
    return _first_n(operands)[0], _sort(operands)[1]


def _cut(array: Size, counts: list[Size], operands: Operands) -> Result:
    work = visit(operands)
    count = counts[-1] if counts else number(0, 0)
    most = max(abs(count.low), abs(count.high))
    if most < array.length.peak():
        array = array._replace(length=Form(most))
    return array._replace(supplied=operands.supplied, text=None), work


def _zip(operands: Operands) -> Result:
    """`inputs` is one list of arrays; `defaults` fill the shorter ones, each time again."""
    inputs, defaults = operands.name("inputs"), operands.named.get("defaults")
    rows, columns = inputs.inner, inputs.length
    filled = defaults.bytes if defaults else NONE
    bytes = add(inputs.bytes, product(rows, add(columns.times(ELEMENT), filled, Form(ELEMENT))))
    inner = join([columns, inputs.inner, defaults.inner if defaults else NONE])
    size = Size(bytes, rows, inner, inputs.low, inputs.high, operands.supplied)
    return size, product(rows, columns).times(PLAIN)


def _pairs(operands: Operands) -> Result:
    """`$objectToArray`: `k` and `v` for each property."""
    one = operands.get(0)
    bytes = add(one.bytes, one.length.times(4 * ELEMENT))
    inner = join([one.inner, Form(2)])
    size = Size(bytes, one.length, inner, one.low, one.high, operands.supplied)
    return size, visit(operands)


def _set_property(operands: Operands) -> Result:
    both = [operands.name("input"), operands.name("value")]
    bytes = add(operands.bytes, Form(ELEMENT))
    inner = join([join([one.length, one.inner]) for one in both])
    length = add(both[0].length, Form(1))
    low, high = (min(one.low for one in both), max(one.high for one in both))
    return Size(bytes, length, inner, low, high, operands.supplied), visit(operands)


def _date_parts(operands: Operands) -> Result:
    return Size(Form(20 * ELEMENT), Form(20), supplied=operands.supplied), NONE


def _range(operands: Operands) -> Result:
    start, end = operands.get(0), operands.get(1)
    step = operands.get(2) if len(operands.all) > 2 else number(1, 1)  # noqa: PLR2004
    spans = [end.high - start.low] if step.low > 0 else [start.high - end.low]
    if step.low <= 0 <= step.high:
        spans = [end.high - start.low, start.high - end.low]
    width = min(abs(step.low), abs(step.high)) if step.is_constant else 1
    # Not a number: both ends are unknown.
    span = max((one if one == one else inf for one in spans), default=inf)  # noqa: PLR0124
    count = max(ceil(span / max(width, 1)), 0) if isfinite(span) else inf
    low, high = min(start.low, end.low), max(start.high, end.high)
    size = Size(Form(2 * count * ELEMENT), Form(count), NONE, low, high, operands.supplied)
    return size, Form(count * PLAIN)


def _names(text: str) -> list[str]:
    return [f"${name}" for name in text.split()]


_SCALARS: Final = """
    exp ln log log10 pow sqrt sin cos tan asin acos atan atan2 asinh acosh atanh sinh cosh tanh
    degreesToRadians radiansToDegrees sigmoid bitAnd bitNot bitOr bitXor rand sampleRate
    meta tsIncrement tsSecond dateAdd dateDiff dateFromParts dateSubtract dateTrunc
    dayOfMonth dayOfWeek dayOfYear hour isoDayOfWeek isoWeek isoWeekYear millisecond minute month
    second week year toDate toObjectId toUUID type subtype count rank denseRank documentNumber
    covariancePop covarianceSamp derivative integral expMovingAvg
"""
_SUMMARIES: Final = "sum avg stdDevPop stdDevSamp median"
_TEXTS: Final = """
    concat toLower toUpper trim ltrim rtrim toString substr substrBytes substrCP split replaceOne
    replaceAll regexFind dateToString convert
"""
_BY_NAME: Final = """
    bottom bottomN cond convert dateAdd dateDiff dateFromParts dateFromString dateSubtract
    dateToParts dateToString dateTrunc firstN getField lastN ltrim maxN median minN percentile
    regexFind regexFindAll regexMatch replaceAll replaceOne rtrim setField sortArray top topN trim
    unsetField zip
"""
_GATHERING: Final = (
    "push addToSet top topN bottom bottomN shift linearFill locf percentile minMaxScaler"
)

BUILDING_TEXTS: Final = frozenset(_names(_TEXTS))
"""Operators whose result is a copy, not a reference; the server itself bounds `$regexFindAll`."""

REFERRING: Final = frozenset(_names("arrayElemAt first last getField ifNull cond min max"))
"""Operators whose result is one of their operands, or a part of it."""

TAKING_NAMES: Final = frozenset(_names(_BY_NAME))
"""Operators whose operands have names; a document is a single operand of all others."""

RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_names(_SCALARS), scalar),
    **dict.fromkeys(_names(_SUMMARIES), _summarize),
    **dict.fromkeys(_names(_GATHERING), _unite),
    **dict.fromkeys(_names("and or not isArray isNumber toBool"), _boolean),
    **dict.fromkeys(_names("eq ne gt gte lt lte cmp"), _compare),
    **dict.fromkeys(_names("indexOfBytes indexOfCP strLenBytes strLenCP"), _search_text),
    **dict.fromkeys(_names("strcasecmp binarySize bsonSize"), _search_text),
    "$dateFromString": _read_text,
    "$regexMatch": _match_pattern,
    "$size": _count,
    **dict.fromkeys(_names("in indexOfArray"), _find_element),
    **dict.fromkeys(_names("allElementsTrue anyElementTrue setEquals setIsSubset"), _test_elements),
    **NUMBERS,
    "$ifNull": choose,
    "$cond": _choose_branch,
    **dict.fromkeys(_names("arrayElemAt first last"), _pick_element),
    "$getField": _read_property,
    **dict.fromkeys(_names("concat toLower toUpper trim ltrim rtrim"), _text),
    "$toString": _to_text,
    **dict.fromkeys(_names("substr substrBytes"), _substring(1)),
    "$substrCP": _substring(_UTF8),
    "$split": _split,
    "$replaceOne": _replace_one,
    "$replaceAll": _replace_all,
    "$regexFind": _find_matches(is_every=False),
    "$regexFindAll": _find_matches(is_every=True),
    "$dateToString": _format_date,
    "$convert": _convert,
    "$concatArrays": _concatenate,
    "$mergeObjects": _unite,
    "$setUnion": _unite_sets,
    "$setDifference": _subtract,
    "$toHashedIndexKey": _hash,
    **dict.fromkeys(_names("reverseArray arrayToObject unsetField"), _same_array),
    "$setIntersection": _intersect,
    "$sortArray": _sort,
    "$slice": _slice,
    **dict.fromkeys(_names("firstN lastN"), _first_n),
    **dict.fromkeys(_names("minN maxN"), _least_n),
    "$zip": _zip,
    "$objectToArray": _pairs,
    "$setField": _set_property,
    "$dateToParts": _date_parts,
    "$range": _range,
}
"""The operators that are known, each with its rule."""
