"""Sizes of aggregation operators: upper bounds of the result and of the work.

Operators that bind variables (`$let`, `$map`, `$filter`, `$reduce`) are in `expression_cost`. An
operator that is in neither has no known bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf, isfinite, isnan, log2
from typing import Final

from docgraph.store.guard.operands import (
    BYTE,
    NUMBERS,
    PLAIN,
    Operands,
    SizeAndForm,
    SizeRule,
    choose,
    compare,
    compare_elements,
    convert,
    scalar,
    scan,
    unknown,
    visit,
)
from docgraph.store.guard.sizes import (
    ELEMENT,
    NONE,
    Depth,
    Form,
    Size,
    add,
    deepest,
    join,
    number,
    product,
)

_REGEX: Final = 16  # how much slower a regular expression is than a search
_LARGEST_NUMBER: Final = 64  # bytes of a number, date or id as text
_FORMAT: Final = 8  # bytes that one of a date format can become
_MATCH: Final = 6 * ELEMENT  # bytes of a match without its text and groups
_COPY: Final = 1 / 4  # how much faster references are copied than inspected
_UTF8: Final = 4
_NUMBER_TYPES: Final = ("int", "long", "double", "decimal")
_STORED_PARTS: Final = 1_000  # of a stored text, as many as elements of a stored array


def _find_element(operands: Operands) -> SizeAndForm:
    """Measure `$in` (value, array) and `$indexOfArray` (array, value)."""
    longest = join([operand.length for operand in operands.all[:2]])
    return operands.number(-1, longest.bound()), add(longest.times(PLAIN), scan(operands))


def _choose_branch(operands: Operands) -> SizeAndForm:
    """Return the size of `$cond`: that of its branches, not of its condition."""
    named = operands.named
    sizes = [named[key] for key in ("then", "else") if key in named] or operands.all[1:]
    return choose(sizes), NONE


def _pick_element(operands: Operands) -> SizeAndForm:
    array = operands.get(0)
    return Size(array.bytes, array.inner, array.inner, array.low, array.high, array.supplied), NONE


def _text(operands: Operands) -> SizeAndForm:
    """Measure a text that is not longer than its operands together."""
    is_stored = len(operands.all) == 1 and operands.get(0).is_stored
    return operands.size(operands.bytes)._replace(is_stored=is_stored), scan(operands)


def _format(operands: Operands, factor: int = 1) -> SizeAndForm:
    """Measure the text of a number, a date or an id."""
    bytes = add(operands.bytes.times(factor), Form(_LARGEST_NUMBER))
    return operands.size(bytes), scan(operands)


def _substring(unit: int) -> SizeRule:
    def rule(operands: Operands) -> SizeAndForm:
        text, count = operands.get(0), operands.get(2)
        bytes = add(text.bytes, Form(_LARGEST_NUMBER))
        if count.is_constant and 0 <= count.high * unit < bytes.peak():
            bytes = Form(count.high * unit)
        return operands.size(bytes), text.bytes.times(BYTE)

    return rule


def _split(operands: Operands) -> SizeAndForm:
    text, delimiter = operands.get(0), operands.get(1)
    length = add(text.bytes.times(1 / len(delimiter.text or " ")), Form(1))
    if text.is_stored and not length.parts:
        length = Form(min(length.constant, _STORED_PARTS))
    return operands.size(add(text.bytes, length.times(ELEMENT)), length), scan(operands)


def _replace_one(operands: Operands) -> SizeAndForm:
    text, new = operands.name("input"), operands.name("replacement")
    return operands.size(add(text.bytes, new.bytes)), scan(operands)


def _replace_all(operands: Operands) -> SizeAndForm:
    text, old, new = (operands.name(key) for key in ("input", "find", "replacement"))
    times = add(text.bytes.times(1 / len(old.text or " ")), Form(1))
    bytes = add(text.bytes, product(times, new.bytes))
    return operands.size(bytes), add(scan(operands), bytes.times(BYTE))


def _find_matches(is_every: bool) -> SizeRule:
    """Return the rule of `$regexFind` and `$regexFindAll`: matched texts and their groups.

    A group that looks ahead can contain the rest of the text in each match.
    """

    def rule(operands: Operands) -> SizeAndForm:
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
        steps = add(scan(operands, _REGEX), bytes.times(BYTE))
        return operands.size(bytes, length, length), steps

    return rule


def _convert(operands: Operands) -> SizeAndForm:
    size, to = choose(operands.all), operands.name("to").text
    is_number = to in _NUMBER_TYPES and "base" not in operands.named
    converted = convert(operands.name("input"), operands) if is_number else unknown(operands)
    bytes = add(size.bytes, Form(_LARGEST_NUMBER))
    low, high = min(size.low, converted.low), max(size.high, converted.high)
    return size._replace(bytes=bytes, low=low, high=high, is_numeric=False), scan(operands)


def _same(operands: Operands) -> Size:
    """Measure some or all elements of the first operand, or of the one named `input`."""
    return operands.input._replace(text=None, supplied=operands.supplied)


def _sort(operands: Operands) -> Form:
    turns = 1 + log2(max(operands.input.length.peak(), 2))
    return compare_elements(operands).times(turns)


def _cut(operands: Operands, array: Size, count: Size) -> Size:
    most = max(abs(count.low), abs(count.high))
    length = Form(most) if most < array.length.peak() else array.length
    return array._replace(length=length, supplied=operands.supplied, text=None)


def _slice(operands: Operands) -> SizeAndForm:
    count = operands.all[-1] if len(operands.all) > 1 else number(0, 0)
    return _cut(operands, operands.get(0), count), visit(operands)


def _zip(operands: Operands) -> SizeAndForm:
    """Measure `$zip`: `inputs` is a list of arrays, `defaults` fill the shorter ones."""
    inputs, defaults = operands.name("inputs"), operands.named.get("defaults")
    rows, columns = inputs.inner, inputs.length
    filled = defaults.bytes if defaults else NONE
    bytes = add(inputs.bytes, product(rows, add(columns.times(ELEMENT), filled, Form(ELEMENT))))
    inner = join([columns, inputs.inner, defaults.inner if defaults else NONE])
    parts = [inputs, defaults] if defaults else [inputs]
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    size = Size(bytes, rows, inner, low, high, operands.supplied)
    return size, product(rows, columns).times(PLAIN)


def _pairs(operands: Operands) -> SizeAndForm:
    """Measure `$objectToArray`: `k` and `v` for each property."""
    document = operands.get(0)
    bytes = add(document.bytes, document.length.times(4 * ELEMENT))
    inner = join([document.inner, Form(2)])
    size = Size(bytes, document.length, inner, document.low, document.high, operands.supplied)
    return size, visit(operands)


def _set_property(operands: Operands) -> SizeAndForm:
    both = [operands.name("input"), operands.name("value")]
    bytes = add(operands.bytes, Form(ELEMENT))
    inner = join([join([operand.length, operand.inner]) for operand in both])
    length = add(both[0].length, Form(1))
    low, high = (min(operand.low for operand in both), max(operand.high for operand in both))
    return Size(bytes, length, inner, low, high, operands.supplied), visit(operands)


def _range(operands: Operands) -> SizeAndForm:
    start, end = operands.get(0), operands.get(1)
    step = operands.get(2) if operands.all[2:] else number(1, 1)
    spans = [end.high - start.low] if step.low > 0 else [start.high - end.low]
    if step.low <= 0 <= step.high:
        spans = [end.high - start.low, start.high - end.low]
    width = min(abs(step.low), abs(step.high)) if step.is_constant else 1
    # Not a number: both ends are unknown.
    span = max(inf if isnan(length) else length for length in spans)
    count = max(ceil(span / max(width, 1)), 0) if isfinite(span) else inf
    low, high = min(start.low, end.low), max(start.high, end.high)
    size = Size(Form(2 * count * ELEMENT), Form(count), NONE, low, high, operands.supplied)
    return size, Form(count * PLAIN)


def _names(text: str) -> list[str]:
    return [f"${name}" for name in text.split()]


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

BUILDING_TEXTS: Final = frozenset(_names(_TEXTS))
"""Operators whose result is a copy, not a reference; the server itself bounds `$regexFindAll`."""

REFERRING: Final = frozenset(_names("arrayElemAt first last getField ifNull cond min max"))
"""Operators whose result is one of their operands, or a part of it."""

TAKING_NAMES: Final = frozenset(_names(_BY_NAME))
"""Operators whose operands have names; a document is a single operand of all others."""

_TABLE: Final[Mapping[str, SizeRule]] = {
    """
    exp ln log log10 pow sqrt sin cos tan asin acos atan atan2 asinh acosh atanh sinh cosh tanh
    degreesToRadians radiansToDegrees sigmoid bitAnd bitNot bitOr bitXor rand sampleRate
    meta tsIncrement tsSecond dateAdd dateDiff dateFromParts dateSubtract dateTrunc
    dayOfMonth dayOfWeek dayOfYear hour isoDayOfWeek isoWeek isoWeekYear millisecond minute month
    second week year toDate toObjectId toUUID type subtype count rank denseRank documentNumber
    covariancePop covarianceSamp derivative integral expMovingAvg
    """: scalar,
    # They run through an array that is their only operand.
    "sum avg stdDevPop stdDevSamp median": lambda ops: (
        unknown(ops),
        NONE if len(ops.all) > 1 else visit(ops),
    ),
    "and or not isArray isNumber toBool": lambda ops: (ops.number(0, 1), NONE),
    "eq ne gt gte lt lte cmp": lambda ops: (ops.number(-1, 1), compare(ops)),
    "indexOfBytes indexOfCP strLenBytes strLenCP strcasecmp binarySize": lambda ops: (
        ops.number(-1, ops.bytes.bound()),
        scan(ops),
    ),
    "bsonSize": lambda ops: (ops.number(0, ops.bytes.bound() + ELEMENT), scan(ops)),
    "dateFromString toHashedIndexKey": lambda ops: (unknown(ops), scan(ops)),
    "regexMatch": lambda ops: (ops.number(0, 1), scan(ops, _REGEX)),
    "size": lambda ops: (ops.number(0, ops.get(0).length.bound()), NONE),
    "in indexOfArray": _find_element,
    "allElementsTrue anyElementTrue setEquals setIsSubset": lambda ops: (
        ops.number(0, 1),
        compare_elements(ops),
    ),
    **NUMBERS,
    "ifNull": lambda ops: (choose(ops.all), NONE),
    "cond": _choose_branch,
    "arrayElemAt first last": _pick_element,
    "getField": lambda ops: (ops.input.within(), NONE),
    "concat toLower toUpper trim ltrim rtrim": _text,
    "toString": _format,
    "dateToString": lambda ops: _format(ops, _FORMAT),
    "substr substrBytes": _substring(1),
    "substrCP": _substring(_UTF8),
    "split": _split,
    "replaceOne": _replace_one,
    "replaceAll": _replace_all,
    "regexFind": _find_matches(is_every=False),
    "regexFindAll": _find_matches(is_every=True),
    "convert": _convert,
    "concatArrays": lambda ops: (ops.unite(), visit(ops).times(_COPY)),
    """
    mergeObjects push addToSet top topN bottom bottomN shift linearFill locf percentile
    minMaxScaler
    """: lambda ops: (ops.unite(), visit(ops)),
    "setUnion": lambda ops: (ops.unite(), compare_elements(ops)),
    "setDifference": lambda ops: (_same(ops), compare_elements(ops)),
    "setIntersection": lambda ops: (choose(ops.all), compare_elements(ops)),
    "reverseArray arrayToObject unsetField": lambda ops: (_same(ops), visit(ops)),
    "sortArray": lambda ops: (_same(ops), _sort(ops)),
    "slice": _slice,
    "firstN lastN": lambda ops: (_cut(ops, ops.name("input"), ops.name("n")), visit(ops)),
    "minN maxN": lambda ops: (_cut(ops, ops.name("input"), ops.name("n")), _sort(ops)),
    "zip": _zip,
    "objectToArray": _pairs,
    "setField": _set_property,
    "dateToParts": lambda ops: (ops.size(Form(20 * ELEMENT), Form(20)), NONE),
    "range": _range,
}

RULES: Final = {name: rule for names, rule in _TABLE.items() for name in _names(names)}
"""The operators that are known, each with its rule."""

# Levels that an operator adds to its deepest operand.
_LEVELS: Final = {
    name: levels
    for levels, names in {
        -1: "arrayElemAt first last getField arrayToObject",
        0: """
        ifNull cond min max concatArrays mergeObjects setUnion setDifference setIntersection
        reverseArray unsetField sortArray slice firstN lastN minN maxN convert top bottom shift
        linearFill locf setField zip
        """,
        1: "objectToArray push addToSet topN bottomN",
    }.items()
    for name in _names(names)
}
_MORE_LEVELS: Final = {"$setField": "value", "$zip": "defaults"}  # of this operand, one more
_OWN_LEVELS: Final = Depth(3)  # of what has no operand in it; $regexFindAll has the most


def nest(name: str, operands: Operands) -> Depth:
    """Return the depth of the result of an operator; an unknown operator may add a level."""
    if name in RULES and name not in _LEVELS:
        return _OWN_LEVELS
    more = operands.named.get(_MORE_LEVELS.get(name, ""))
    depths = [*(operand.depth for operand in operands.all), *([more.depth.add(1)] if more else [])]
    return deepest([_OWN_LEVELS, deepest(depths).add(_LEVELS.get(name, 1))])
