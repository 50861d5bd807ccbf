"""Upper bounds of the cost of an expression: the database cannot interrupt one.

`maxTimeMS` ends a query between two documents, not inside an expression: nested loops occupy a
core, and 27 nested `$let` that double an array exhaust the memory. So an upper bound of the steps
and of the largest value is computed before an expression is sent. The rules are listed in
`docs/reference/store-security.md`.

Expressions that a caller writes count in full. Of those that an author stored (`trusted`) only the
values count that callers supply, which arrive as `$literal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log2
from typing import Any, Final, NamedTuple

from docgraph.exchange.errors import ExpressionTooLarge, LoopTooLarge, QueryError
from docgraph.store.guard.operands import BYTE, PLAIN, Operands, choose
from docgraph.store.guard.operator_sizes import BUILDING_TEXTS, REFERRING, RULES, TAKING_NAMES, nest
from docgraph.store.guard.references import ExpressionPath
from docgraph.store.guard.sizes import (
    ELEMENT,
    FLAT,
    NONE,
    CostModel,
    Depth,
    ExpressionScope,
    Form,
    LoopElement,
    Size,
    add,
    close,
    deepest,
    join,
    measure_constant,
)

MAX_STEPS: Final = 100_000
MAX_BYTES: Final = 1024 * 1024  # of a value that is built
_MAX_REFERRED: Final = 64 * MAX_BYTES  # of a value with all that it refers to
MAX_OPERATORS: Final = 1_000
MAX_DEPTH: Final = 100
MAX_LEVELS: Final = 1_000  # of a value; the database stores 200, and crashes at some 10 000
MAX_PATTERN: Final = 512
MAX_PATTERNS: Final = 10
_MANY_DOUBLINGS: Final = 64
_UNPACKED: Final = 4  # how much more a document takes where an operator reads all of it

_HINT: Final = "shorten arrays with $slice and texts with $substrCP first, or split the request"
_PATTERNS: Final = frozenset({"$regexMatch", "$regexFind", "$regexFindAll"})
_SYSTEM: Final = frozenset({"NOW", "CLUSTER_TIME", "REMOVE", "DESCEND", "PRUNE", "KEEP"})
_DOCUMENT: Final = frozenset({"ROOT", "CURRENT"})
# Values of a request, in a definition that is checked when it is written.
_PLACEHOLDERS: Final = frozenset({"$arg", "$var", "$fk"})


class _Frame(NamedTuple):
    """The scope of an expression, its evaluations for each document, and its place."""

    scope: ExpressionScope
    times: float
    place: ExpressionPath

    def at(self, key: str | int) -> _Frame:
        """Return the frame of the operand below a key."""
        return _Frame(self.scope, self.times, ExpressionPath(self.place, key))

    def bind(self, variables: Mapping[str, Size], times: float) -> _Frame:
        """Return the frame of an operand with more variables that is evaluated so many times."""
        return _Frame(self.scope.bind(variables), times, self.place)


class Analysis:
    """Sums the steps of expressions; raises `ExpressionTooLarge` with the place."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self.too_large = LoopTooLarge if model.trusted else ExpressionTooLarge
        self.steps = NONE
        self._operators = 0
        self._depth = 0
        self._kept = NONE
        self._patterns = 0
        # Values that a `$reduce` builds: how large they get is known at its end.
        self._open: list[tuple[Form, int, ExpressionPath]] = []
        self._deepest = FLAT
        self._stored = model.stored

    def scope(self) -> ExpressionScope:
        return ExpressionScope(self._stored)

    def deepen(self, depth: Depth) -> None:
        """Set the depth of the documents that a stage has built."""
        self._stored = self._stored._replace(depth=deepest([self._stored.depth, depth]))

    def measure(
        self, value: Any, scope: ExpressionScope, times: float, place: ExpressionPath
    ) -> Size:
        """Return the size of an expression that is evaluated so many times for a document."""
        return self._measure(value, _Frame(scope, times, place))

    def _measure(self, value: Any, frame: _Frame) -> Size:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryError(
                f"{frame.place}: the expression is nested deeper than {MAX_DEPTH} levels"
            )
        try:
            if isinstance(value, str):
                return self._measure_text(value, frame.scope)
            if isinstance(value, Mapping):
                return self._measure_document(value, frame)
            if isinstance(value, list | tuple):
                items = self._measure_list(value, frame)
                return self._gather(items, len(value) * ELEMENT, frame.place)
            return measure_constant(value, supplied=False, trusted=self.model.trusted)
        finally:
            self._depth -= 1

    def _measure_list(self, values: Sequence[Any], frame: _Frame) -> list[Size]:
        return [self._measure(value, frame.at(index)) for index, value in enumerate(values)]

    def _measure_named(self, values: Any, frame: _Frame) -> dict[str, Size]:
        named = values.items() if isinstance(values, Mapping) else ()
        return {key: self._measure(value, frame.at(key)) for key, value in named}

    def charge(self, steps: Form, times: float, place: ExpressionPath) -> None:
        """Add steps that are taken so many times."""
        self.steps = add(self.steps, steps.average().times(times))
        if self.steps.constant > MAX_STEPS:
            raise self.too_large(
                f"{place}: the expression can take more than {MAX_STEPS} steps for one document",
                hint=_HINT,
            )

    def check_size(self, size: Size, place: ExpressionPath) -> None:
        self._check_bytes(size.built, MAX_BYTES, place)
        self._check_bytes(size.bytes, _MAX_REFERRED, place)
        self.check_depth(size.depth, place)

    def check_depth(self, depth: Depth, place: ExpressionPath) -> None:
        if max([depth.levels, *depth.parts.values()]) > MAX_LEVELS:
            raise self.too_large(
                f"{place}: the expression can make a value of more than {MAX_LEVELS} levels",
                hint="nest fewer arrays and objects in each other; in $reduce, shorten the input "
                "with $slice, or append to $$value with $concatArrays or $mergeObjects",
            )
        if depth.parts:
            self._deepest = deepest([self._deepest, depth])

    def count_pattern(self, place: ExpressionPath) -> None:
        """Add a regular expression of a filter: each can read a long text many times."""
        self._patterns += 1
        if self._patterns > MAX_PATTERNS:
            raise self.too_large(
                f"{place}: there are more than {MAX_PATTERNS} regular expressions in the filter",
                hint="join them with | in one regular expression, or split the request",
            )

    def keep(self, built: Form, place: ExpressionPath) -> None:
        """Add the bytes that a property or loop builds: all of them are in memory together."""
        self._kept = add(self._kept, Form(built.peak()))
        self._check_bytes(self._kept, _MAX_REFERRED, place)

    def _check_bytes(self, bytes: Form, limit: int, place: ExpressionPath) -> None:
        most = bytes.flatten()
        if most.constant > limit or any(count > limit for count in most.parts.values()):
            raise self.too_large(
                f"{place}: the expression can make a value of more than {limit // MAX_BYTES} MiB",
                hint=_HINT,
            )
        if most.parts:
            self._open.append((most, limit, place))

    def _measure_text(self, text: str, scope: ExpressionScope) -> Size:
        if not text.startswith("$"):
            return measure_constant(text, supplied=False, trusted=self.model.trusted)
        current = scope.variables.get("CURRENT")
        if not text.startswith("$$"):
            path = text[1:]
            return scope.read(path) if current is None else current.within(path.count(".") + 1)
        name, dot, path = text[2:].partition(".")
        if name in _DOCUMENT and name not in scope.variables:
            return scope.read(path) if dot else scope.document
        if name in _SYSTEM:
            return Size()
        variable = scope.variables.get(name, self._stored)
        return variable.within(path.count(".") + 1) if dot else variable

    def _measure_document(self, value: Mapping[str, Any], frame: _Frame) -> Size:
        if len(value) == 1:
            ((name, body),) = value.items()
            if name[:1] == "$":
                return self._measure_operator(name, body, frame.at(name))
        # An operator among others is of a window, or a mistake that the database reports.
        items = [
            self._measure_operator(key, item, frame.at(key))
            if key[:1] == "$"
            else self._measure(item, frame.at(key))
            for key, item in value.items()
        ]
        if not self.model.trusted:
            self.charge(Form(PLAIN * len(items)), frame.times, frame.place)
        return self._gather(items, sum(len(key) + ELEMENT for key in value), frame.place)

    def _gather(self, items: list[Size], overhead: int, place: ExpressionPath) -> Size:
        """Return the size of an array or document of these."""
        trusted = self.model.trusted
        inner = join([form for item in items for form in (item.length, item.inner)])
        size = Size(
            add(Form(1 if trusted else overhead), *(item.bytes for item in items)),
            Form(1 if trusted else len(items)),
            inner,
            min((item.low for item in items), default=0),
            max((item.high for item in items), default=1),
            any(item.supplied for item in items),
            built=add(Form(overhead), *(item.built for item in items)),
            is_whole=any(item.is_whole for item in items),
            depth=deepest(item.depth for item in items).add(1),
        )
        self.check_size(size, place)
        return size

    def _measure_operator(self, name: str, body: Any, frame: _Frame) -> Size:
        place, trusted = frame.place, self.model.trusted
        if name in ("$literal", "$const"):
            return measure_constant(body, supplied=True, trusted=trusted)
        if name in _PLACEHOLDERS:
            return self._stored._replace(low=0, high=self.model.elements, is_numeric=True)
        if not trusted:
            self._operators += 1
            if self._operators > MAX_OPERATORS:
                raise self.too_large(
                    f"{place}: there are more than {MAX_OPERATORS} operators in expressions",
                    hint="split the request",
                )
            self.charge(Form(PLAIN), frame.times, place)
        special = _SPECIAL.get(name)
        if special is not None and isinstance(body, Mapping):
            size = special(self, body, frame)
        else:
            size = self._apply(name, body, frame)
        if not size.bytes.parts and size.bytes.constant < ELEMENT:
            size = size._replace(bytes=_SINGLE)  # it may be null
        self.check_size(size, place)
        return size

    def _apply(self, name: str, body: Any, frame: _Frame) -> Size:
        """Return the result size of an operator that binds no variables."""
        rule, place, trusted = RULES.get(name), frame.place, self.model.trusted
        if name == "$getField" and not (isinstance(body, Mapping) and "input" in body):
            return self._measure_text("$$CURRENT", frame.scope).within()
        if rule is None and not trusted:
            raise QueryError(
                f"{place}: the operator is not known, so that its cost cannot be bounded",
                hint="use it in a stored aggregation or a GraphQL mapping",
            )
        operands = self._measure_operands(name, body, frame)
        if not trusted and name in _PATTERNS:
            check_pattern(operands.name("regex").text or "", place)
        size, steps = (rule or _COMBINE)(operands)
        size = size._replace(depth=nest(name, operands))
        if name == "$range":
            if size.length.constant == inf and not isinstance(body, list | tuple):
                raise QueryError(f"{place}: $range takes a list of two or three numbers")
            size = self._check_range(size, place)
        unpacked = add(*(operand.bytes for operand in operands.all if operand.is_whole)).times(
            _UNPACKED
        )
        self.charge(add(steps, unpacked.times(BYTE)), frame.times, place)
        if name in BUILDING_TEXTS:
            return size._replace(built=size.bytes)
        if size.bytes == _SINGLE:
            return size._replace(built=_SINGLE)
        references = NONE if name in REFERRING else size.length.times(ELEMENT)
        is_whole = name != "$getField" and any(operand.is_whole for operand in operands.all)
        built = add(references, unpacked, *(operand.built for operand in operands.all))
        return size._replace(built=built, is_whole=is_whole)

    def _measure_operands(self, name: str, body: Any, frame: _Frame) -> Operands:
        trusted = self.model.trusted
        if isinstance(body, list | tuple):
            return Operands(self._measure_list(body, frame), trusted=trusted)
        is_named = name in TAKING_NAMES and isinstance(body, Mapping)
        if is_named and not any(key[:1] == "$" for key in body):
            named = self._measure_named(body, frame)
            return Operands(list(named.values()), named, trusted=trusted)
        return Operands([self._measure(body, frame)], trusted=trusted)

    def _check_range(self, size: Size, place: ExpressionPath) -> Size:
        if self.model.trusted and not size.supplied:
            return self.model.stored
        if size.length.constant == inf:
            raise self.too_large(
                f"{place}: the bounds of $range must be known before it runs",
                hint='use constants, the $size of an array, or a limit: {"$min": ["$n", 100]}',
            )
        return size

    def _measure_let(self, body: Mapping[str, Any], frame: _Frame) -> Size:
        bound = self._measure_named(body.get("vars"), frame.at("vars"))
        result = self._measure(body.get("in"), frame.bind(bound, frame.times).at("in"))
        return result._replace(built=add(result.built, *(size.built for size in bound.values())))

    def _measure_switch(self, body: Mapping[str, Any], frame: _Frame) -> Size:
        branches, results = body.get("branches"), []
        for index, branch in enumerate(branches if isinstance(branches, list | tuple) else ()):
            parts = self._measure_named(branch, frame.at("branches").at(index))
            results += [size for key, size in parts.items() if key != "case"]
        if "default" in body:
            results.append(self._measure(body["default"], frame.at("default")))
        return choose(results)._replace(built=join([result.built for result in results]))

    def _open_loop(self, body: Mapping[str, Any], frame: _Frame) -> tuple[Size, LoopElement, float]:
        """Return the array of a loop, the part that each turn gets, and the number of turns."""
        array = self._measure(body.get("input"), frame.at("input"))
        turns = array.length.average()
        if array.length.is_open:
            raise self.too_large(
                f"{frame.place}: a loop over the $$value of $reduce has no bound", hint=_HINT
            )
        if not self.model.trusted or turns.constant > 1:
            self.charge(turns, frame.times, frame.place)
        return array, LoopElement(array.bytes, turns.constant), frame.times * max(turns.constant, 1)

    def _measure_map(self, body: Mapping[str, Any], frame: _Frame) -> Size:
        array, part, turns = self._open_loop(body, frame)
        inside = frame.bind({str(body.get("as", "this")): array.element(part)}, turns)
        result = self._measure(body.get("in"), inside.at("in"))
        bytes = close(add(result.bytes, Form(ELEMENT)), part, array.length)
        inner = join([form.resolve(part, array.bytes) for form in (result.length, result.inner)])
        built = close(add(result.built, Form(ELEMENT)), part, array.length)
        supplied = array.supplied or result.supplied
        size = Size(bytes, array.length, inner, result.low, result.high, supplied)
        if frame.times > 1 or array.built != NONE:
            built = add(array.built, built)
        elif not (total := built.flatten()).parts:
            # One iteration over a stored array is allowed; one over its result is too large.
            self.keep(total, frame.place)
            built = Form(min(total.constant, MAX_BYTES))
        depth = result.depth.add(1)
        return size._replace(built=built, is_whole=result.is_whole, depth=depth)

    def _measure_filter(self, body: Mapping[str, Any], frame: _Frame) -> Size:
        array, part, turns = self._open_loop(body, frame)
        inside = frame.bind({str(body.get("as", "this")): array.element(part)}, turns)
        self._measure(body.get("cond"), inside.at("cond"))
        if "limit" in body:
            self._measure(body["limit"], frame.at("limit"))
        return array._replace(built=add(array.built, array.length.times(ELEMENT)))

    def _measure_reduce(self, body: Mapping[str, Any], frame: _Frame) -> Size:
        array, part, turns = self._open_loop(body, frame)
        first = self._measure(body.get("initialValue"), frame.at("initialValue"))
        grown = LoopElement(None)
        value, count = Form(0, {grown: 1}), Form(0, {grown: 1 / ELEMENT})
        value_size = Size(value, count, count, depth=Depth(0, {grown: 0}))
        bound = {"this": array.element(part), "value": value_size}
        result = self._measure(body.get("in"), frame.bind(bound, turns).at("in"))
        bytes = self._accumulate(first.bytes, result.bytes, grown, part, array, frame.place)
        depth = result.depth.repeat(grown, first.depth, array.length.bound())
        self._resolve(grown, bytes, depth, frame.place)
        length = add(bytes.times(1 / ELEMENT), Form(1))
        supplied = array.supplied or result.supplied
        return Size(bytes, length, length, supplied=supplied, built=bytes, depth=depth)

    def _accumulate(
        self,
        first: Form,
        result: Form,
        grown: LoopElement,
        part: LoopElement,
        array: Size,
        place: ExpressionPath,
    ) -> Form:
        """Return the largest size of `$$value`: each turn builds `result` from the previous one."""
        again = result.parts.get(grown, 0)
        if not again:
            return join([first, result.resolve(part, array.bytes)])
        added = close(result.without(grown), part, array.length)
        if again <= 1:
            return add(first, added)
        doublings = array.length.bound() * log2(again)
        if doublings > _MANY_DOUBLINGS:
            self._check_bytes(Form(inf), MAX_BYTES, place)
        return add(first, added).times(2**doublings)

    def _resolve(
        self, grown: LoopElement, bytes: Form, depth: Depth, place: ExpressionPath
    ) -> None:
        """Run the checks that waited for the size of `$$value`."""
        waiting, self._open = self._open, []
        for form, limit, where in waiting:
            self._check_bytes(form.resolve(grown, bytes), limit, where)
        steps, self.steps = self.steps.resolve(grown, bytes), NONE
        self.charge(steps, 1, place)
        built, self._deepest = self._deepest.resolve(grown, depth), FLAT
        self.check_depth(built, place)


_SPECIAL: Final = {
    "$let": Analysis._measure_let,
    "$switch": Analysis._measure_switch,
    "$map": Analysis._measure_map,
    "$filter": Analysis._measure_filter,
    "$reduce": Analysis._measure_reduce,
}
_SINGLE: Final = Form(ELEMENT)
_COMBINE: Final = RULES["$setUnion"]  # what an author uses that is not known here


def check_pattern(pattern: str | bytes, place: ExpressionPath) -> None:
    """Reject a regular expression that is too long."""
    if len(pattern) > MAX_PATTERN:
        raise QueryError(f"{place}: a regular expression may have {MAX_PATTERN} characters at most")
