"""Bounds what an expression can cost the database, which cannot interrupt one.

`maxTimeMS` ends a query between two documents, not inside of an expression: nested loops burn a
core, and 27 nested `$let` that double an array use up the memory. So an upper bound of the steps
and of the largest value is computed before an expression is sent. The rules are listed in
`docs/reference/store-security.md`.

Expressions that a caller writes count in full. Of those that an author stored (`trusted`) only the
values count that callers supply, which arrive as `$literal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, log2
from typing import Any, Final

from docgraph.exchange.errors import ExpressionTooLarge, LoopTooLarge, QueryError
from docgraph.store.guard.expression_scope import Model, Place, Scope, measure_constant
from docgraph.store.guard.operands import BYTE, PLAIN, Operands, choose
from docgraph.store.guard.operator_sizes import BUILDING_TEXTS, REFERRING, RULES, TAKING_NAMES
from docgraph.store.guard.sizes import ELEMENT, NONE, Form, Part, Size, add, close, join

__all__ = ["MAX_PATTERN", "Analysis"]

MAX_STEPS: Final = 100_000
MAX_BYTES: Final = 1024 * 1024  # of a value that is built
_MAX_REFERRED: Final = 64 * MAX_BYTES  # of a value with all that it refers to
MAX_OPERATORS: Final = 1_000
MAX_DEPTH: Final = 100
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


class Analysis:
    """Adds up the steps of expressions; raises `ExpressionTooLarge` with the place."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.too_large = LoopTooLarge if model.trusted else ExpressionTooLarge
        self.steps = NONE
        self._operators = 0
        self._depth = 0
        self._kept = NONE
        self._patterns = 0
        # Values that a `$reduce` builds: how large they get is known at its end.
        self._open: list[tuple[Form, int, Place]] = []

    def scope(self) -> Scope:
        """That of a stored document."""
        return Scope(self.model.stored)

    def measure(self, value: Any, scope: Scope, times: float, place: Place) -> Size:
        """The size of an expression that is evaluated so many times for a document."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryError(f"{place}: the expression is nested deeper than {MAX_DEPTH} levels")
        try:
            if isinstance(value, str):
                return self._measure_text(value, scope)
            if isinstance(value, Mapping):
                return self._measure_document(value, scope, times, place)
            if isinstance(value, list | tuple):
                items = [
                    self.measure(item, scope, times, Place(place, index))
                    for index, item in enumerate(value)
                ]
                return self._gather(items, len(value) * ELEMENT, place)
            return measure_constant(value, supplied=False, trusted=self.model.trusted)
        finally:
            self._depth -= 1

    def charge(self, steps: Form, times: float, place: Place) -> None:
        """Add steps that are taken so many times."""
        self.steps = add(self.steps, steps.average().times(times))
        if self.steps.constant > MAX_STEPS:
            raise self.too_large(
                f"{place}: the expression can take more than {MAX_STEPS} steps for one document",
                hint=_HINT,
            )

    def check_size(self, size: Size, place: Place) -> None:
        """Reject a value that can be too large."""
        self._check_bytes(size.built, MAX_BYTES, place)
        self._check_bytes(size.bytes, _MAX_REFERRED, place)

    def count_pattern(self, place: Place) -> None:
        """Add a regular expression of a filter: each can read a long text many times."""
        self._patterns += 1
        if self._patterns > MAX_PATTERNS:
            raise self.too_large(
                f"{place}: there are more than {MAX_PATTERNS} regular expressions in the filter",
                hint="join them with | in one regular expression, or split the request",
            )

    def keep(self, built: Form, place: Place) -> None:
        """Add what one more property or loop builds: all of them are in memory together."""
        self._kept = add(self._kept, Form(built.peak()))
        self._check_bytes(self._kept, _MAX_REFERRED, place)

    def _check_bytes(self, bytes: Form, limit: int, place: Place) -> None:
        most = bytes.flatten()
        if most.constant > limit or any(count > limit for count in most.parts.values()):
            raise self.too_large(
                f"{place}: the expression can make a value of more than {limit // MAX_BYTES} MiB",
                hint=_HINT,
            )
        if most.parts:
            self._open.append((most, limit, place))

    # --- values -----------------------------------------------------------------------------------

    def _measure_text(self, text: str, scope: Scope) -> Size:
        if not text.startswith("$"):
            return measure_constant(text, supplied=False, trusted=self.model.trusted)
        current = scope.variables.get("CURRENT")
        if not text.startswith("$$"):
            return scope.read(text[1:]) if current is None else current.within()
        name, dot, path = text[2:].partition(".")
        if name in _DOCUMENT and name not in scope.variables:
            return scope.read(path) if dot else scope.document
        if name in _SYSTEM:
            return Size()
        found = scope.variables.get(name, self.model.stored)
        return found.within() if dot else found

    def _measure_document(
        self, value: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> Size:
        if len(value) == 1:
            ((name, body),) = value.items()
            if name[:1] == "$":
                return self._measure_operator(name, body, scope, times, Place(place, name))
        items, keys = [], 0
        for key, item in value.items():
            below = Place(place, key)
            if key[:1] == "$":  # of a window, or a mistake that the database reports
                items.append(self._measure_operator(key, item, scope, times, below))
            else:
                items.append(self.measure(item, scope, times, below))
            keys += len(key) + ELEMENT
        if not self.model.trusted:
            self.charge(Form(PLAIN * len(items)), times, place)
        return self._gather(items, keys, place)

    def _gather(self, items: list[Size], overhead: int, place: Place) -> Size:
        """The array or document of these."""
        trusted = self.model.trusted
        inner = join([form for one in items for form in (one.length, one.inner)])
        size = Size(
            add(Form(1 if trusted else overhead), *(one.bytes for one in items)),
            Form(1 if trusted else len(items)),
            inner,
            min((one.low for one in items), default=0),
            max((one.high for one in items), default=1),
            any(one.supplied for one in items),
            built=add(Form(overhead), *(one.built for one in items)),
            is_whole=any(one.is_whole for one in items),
        )
        self.check_size(size, place)
        return size

    # --- operators --------------------------------------------------------------------------------

    def _measure_operator(
        self, name: str, body: Any, scope: Scope, times: float, place: Place
    ) -> Size:
        if name in ("$literal", "$const"):
            return measure_constant(body, supplied=True, trusted=self.model.trusted)
        if name in _PLACEHOLDERS:
            return self.model.stored._replace(low=0, high=self.model.elements)
        trusted = self.model.trusted
        if not trusted:
            self._operators += 1
            if self._operators > MAX_OPERATORS:
                raise self.too_large(
                    f"{place}: there are more than {MAX_OPERATORS} operators in expressions",
                    hint="split the request",
                )
            self.charge(Form(PLAIN), times, place)
        special = _SPECIAL.get(name)
        if special is not None and isinstance(body, Mapping):
            size = special(self, body, scope, times, place)
        else:
            size = self._apply(name, body, scope, times, place)
        if not size.bytes.parts and size.bytes.constant < ELEMENT:
            size = size._replace(bytes=_SINGLE)  # it may be null
        self.check_size(size, place)
        return size

    def _apply(self, name: str, body: Any, scope: Scope, times: float, place: Place) -> Size:
        """The result of an operator that binds no variables."""
        rule, trusted = RULES.get(name), self.model.trusted
        if rule is None and not trusted:
            raise QueryError(
                f"{place}: the operator is not known, so that its cost cannot be bounded",
                hint="use it in a stored aggregation or a GraphQL mapping",
            )
        operands = self._measure_operands(name, body, scope, times, place)
        if not trusted and name in _PATTERNS:
            _check_pattern(operands, place)
        size, steps = (rule or _COMBINE)(operands)
        if name == "$range":
            size = self._check_range(size, place)
        unpacked = add(*(one.bytes for one in operands.all if one.is_whole)).times(_UNPACKED)
        self.charge(add(steps, unpacked.times(BYTE)), times, place)
        if name in BUILDING_TEXTS:
            return size._replace(built=size.bytes)
        if size.bytes == _SINGLE:
            return size._replace(built=_SINGLE)
        own = NONE if name in REFERRING else size.length.times(ELEMENT)
        is_whole = name != "$getField" and any(one.is_whole for one in operands.all)
        built = add(own, unpacked, *(one.built for one in operands.all))
        return size._replace(built=built, is_whole=is_whole)

    def _measure_operands(
        self, name: str, body: Any, scope: Scope, times: float, place: Place
    ) -> Operands:
        trusted = self.model.trusted
        if isinstance(body, list | tuple):
            sizes = [
                self.measure(item, scope, times, Place(place, index))
                for index, item in enumerate(body)
            ]
            return Operands(sizes, trusted=trusted)
        is_named = name in TAKING_NAMES and not any(key[:1] == "$" for key in body)
        if is_named and isinstance(body, Mapping):
            named = {
                key: self.measure(item, scope, times, Place(place, key))
                for key, item in body.items()
            }
            return Operands(list(named.values()), named, trusted=trusted)
        return Operands([self.measure(body, scope, times, place)], trusted=trusted)

    def _check_range(self, size: Size, place: Place) -> Size:
        if self.model.trusted and not size.supplied:
            return self.model.stored
        if size.length.constant == inf:
            raise self.too_large(
                f"{place}: the bounds of $range must be known before it runs",
                hint='use constants, the $size of an array, or a limit: {"$min": ["$n", 100]}',
            )
        return size

    def _measure_let(
        self, body: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> Size:
        variables = body.get("vars")
        below = Place(place, "vars")
        bound = {
            name: self.measure(value, scope, times, Place(below, name))
            for name, value in (variables.items() if isinstance(variables, Mapping) else ())
        }
        result = self.measure(body.get("in"), scope.bind(bound), times, Place(place, "in"))
        return result._replace(built=add(result.built, *(one.built for one in bound.values())))

    def _measure_switch(
        self, body: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> Size:
        branches = body.get("branches")
        results = []
        for index, branch in enumerate(branches if isinstance(branches, list | tuple) else ()):
            below = Place(Place(place, "branches"), index)
            for key, part in branch.items() if isinstance(branch, Mapping) else ():
                size = self.measure(part, scope, times, Place(below, key))
                if key != "case":
                    results.append(size)
        if "default" in body:
            results.append(self.measure(body["default"], scope, times, Place(place, "default")))
        built = join([one.built for one in results])
        return choose(Operands(results))[0]._replace(built=built)

    # --- loops ------------------------------------------------------------------------------------

    def _open_loop(
        self, body: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> tuple[Size, Part, float]:
        """The array that a loop runs over, the part that each turn gets, and all turns."""
        array = self.measure(body.get("input"), scope, times, Place(place, "input"))
        turns = array.length.average()
        if array.length.is_open:
            raise self.too_large(
                f"{place}: a loop over the $$value of $reduce has no bound", hint=_HINT
            )
        if not self.model.trusted or turns.constant > 1:
            self.charge(turns, times, place)
        return array, Part(array.bytes, turns.constant), times * max(turns.constant, 1)

    def _measure_map(
        self, body: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> Size:
        array, part, turns = self._open_loop(body, scope, times, place)
        inside = scope.bind({str(body.get("as", "this")): array.element(part)})
        result = self.measure(body.get("in"), inside, turns, Place(place, "in"))
        bytes = close(add(result.bytes, Form(ELEMENT)), part, array.length)
        inner = join([one.resolve(part, array.bytes) for one in (result.length, result.inner)])
        built = close(add(result.built, Form(ELEMENT)), part, array.length)
        supplied = array.supplied or result.supplied
        size = Size(bytes, array.length, inner, result.low, result.high, supplied)
        is_stored = times <= 1 and array.built == NONE
        built = self._limit_once(built, place) if is_stored else add(array.built, built)
        return size._replace(built=built, is_whole=result.is_whole)

    def _limit_once(self, built: Form, place: Place) -> Form:
        """Let one iteration over a stored array pass; what doubles its result is too large."""
        total = built.flatten()
        if total.parts:
            return built
        self.keep(total, place)
        return Form(min(total.constant, MAX_BYTES))

    def _measure_filter(
        self, body: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> Size:
        array, part, turns = self._open_loop(body, scope, times, place)
        inside = scope.bind({str(body.get("as", "this")): array.element(part)})
        self.measure(body.get("cond"), inside, turns, Place(place, "cond"))
        if "limit" in body:
            self.measure(body["limit"], scope, times, Place(place, "limit"))
        return array._replace(built=add(array.built, array.length.times(ELEMENT)))

    def _measure_reduce(
        self, body: Mapping[str, Any], scope: Scope, times: float, place: Place
    ) -> Size:
        array, part, turns = self._open_loop(body, scope, times, place)
        first = self.measure(body.get("initialValue"), scope, times, Place(place, "initialValue"))
        grown = Part(None)
        value = Form(0, {grown: 1})
        count = Form(0, {grown: 1 / ELEMENT})
        inside = scope.bind({"this": array.element(part), "value": Size(value, count, count)})
        result = self.measure(body.get("in"), inside, turns, Place(place, "in"))
        bytes = self._accumulate(first.bytes, result.bytes, grown, part, array, place)
        self._resolve(grown, bytes, place)
        length = add(bytes.times(1 / ELEMENT), Form(1))
        supplied = array.supplied or result.supplied
        return Size(bytes, length, length, supplied=supplied, built=bytes)

    def _accumulate(
        self, first: Form, result: Form, grown: Part, part: Part, array: Size, place: Place
    ) -> Form:
        """How large `$$value` can get: each turn makes `result` of the one before."""
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

    def _resolve(self, grown: Part, bytes: Form, place: Place) -> None:
        """Check what was left open as long as the size of `$$value` was not known."""
        waiting, self._open = self._open, []
        for form, limit, where in waiting:
            self._check_bytes(form.resolve(grown, bytes), limit, where)
        steps, self.steps = self.steps.resolve(grown, bytes), NONE
        self.charge(steps, 1, place)


_SPECIAL: Final = {
    "$let": Analysis._measure_let,
    "$switch": Analysis._measure_switch,
    "$map": Analysis._measure_map,
    "$filter": Analysis._measure_filter,
    "$reduce": Analysis._measure_reduce,
}
_SINGLE: Final = Form(ELEMENT)
_COMBINE: Final = RULES["$setUnion"]  # what an author uses that is not known here


def _check_pattern(operands: Operands, place: Place) -> None:
    text = operands.name("regex").text
    if text is not None and len(text) > MAX_PATTERN:
        raise QueryError(f"{place}: a regular expression may have {MAX_PATTERN} characters at most")
