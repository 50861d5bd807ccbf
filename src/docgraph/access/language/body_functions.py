"""Predicates on the body: what a request to the REST API writes.

`view.py` determines that. Where it is uncertain (`$rename`, `$push`, …), or true of a
part of the documents, the predicate is unknown: rules are written with `not` and without. A
comparison with a property that is not written is unknown, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from docgraph.access.language.function import (
    AccessFunction,
    FunctionArguments,
    Test,
    Value,
    is_variable,
    items_of,
)
from docgraph.access.language.view import NoValue, RequestView, WrittenChanges
from docgraph.codec import decode
from docgraph.codec.equality import is_equal_unordered
from docgraph.exchange.data import FieldPath
from docgraph.exchange.errors import DocgraphError
from docgraph.predicates import Parameter
from docgraph.store.names import split_key

FindValues = Callable[[RequestView], list[Any]]
_WHOLE = re.compile(r"\$\{[\w.-]+\}")


def _on_changes(test: Callable[[WrittenChanges], bool]) -> Test:
    """Build a test of what is written; requests to other services than REST write nothing."""
    return lambda view: view.data is not None and test(view.get_changes())


def _on_property(
    arguments: FunctionArguments, test: Callable[[Any, list[Any]], bool], name: str
) -> Test:
    """Build a test of every value that is stored at the key, against those of the rule."""
    key, expected = split_key(arguments.text("key") or ""), _read_values(arguments, name)

    def test_property(view: RequestView) -> bool:
        if view.data is None:
            return False
        stored = view.get_changes().find(key)
        if not stored.found:
            raise NoValue("absent")
        values = expected(view)
        fitting = [test(value, values) for value in stored.found]
        return _decide(holds=stored.is_everywhere and all(fitting), fails=not any(fitting))

    return test_property


def _decide(*, holds: bool, fails: bool) -> bool:
    """Return the truth; raise when it differs between documents or cannot be determined."""
    if not holds and not fails:
        raise NoValue("it depends")
    return holds


def _build_contains(arguments: FunctionArguments) -> Test:
    keys = [split_key(key) for key in arguments.texts["keys"]]

    def contains(changes: WrittenChanges, key: FieldPath) -> bool:
        return _decide(
            holds=changes.contains(key),
            fails=not any(change.may_touch(key) for change in changes.written),
        )

    def test(changes: WrittenChanges) -> bool:
        return all(contains(changes, key) for key in keys)

    return _on_changes(test)


def _build_blacklist(arguments: FunctionArguments) -> Test:
    keys = [split_key(key) for key in arguments.texts["keys"]]

    def test(changes: WrittenChanges) -> bool:
        written = changes.written
        return _decide(
            holds=not any(change.may_touch(key) for change in written for key in keys),
            fails=any(change.is_within(key) for change in written for key in keys),
        )

    return _on_changes(test)


def _build_whitelist(arguments: FunctionArguments) -> Test:
    keys = [split_key(key) for key in arguments.texts.get("keys", ())]

    def test(changes: WrittenChanges) -> bool:
        outside = [
            change for change in changes.written if not any(change.is_within(key) for key in keys)
        ]
        certain = any(
            all(change.is_outside(key) for key in keys) for change in outside if change.is_exact
        )
        return _decide(holds=not outside, fails=certain)

    return _on_changes(test)


def _build_equals(arguments: FunctionArguments) -> Test:
    return _on_property(
        arguments, lambda value, expected: is_equal_unordered(value, expected[0]), "value"
    )


def _build_array_contains(arguments: FunctionArguments) -> Test:
    def test(value: Any, expected: list[Any]) -> bool:
        return isinstance(value, list) and all(_has(value, item) for item in expected)

    return _on_property(arguments, test, "values")


def _build_subset(arguments: FunctionArguments) -> Test:
    def test(value: Any, allowed: list[Any]) -> bool:
        return isinstance(value, list) and all(_has(allowed, item) for item in value)

    return _on_property(arguments, test, "values")


def _has(values: Sequence[Any], wanted: Any) -> bool:
    return any(is_equal_unordered(value, wanted) for value in values)


def _read_values(arguments: FunctionArguments, name: str) -> FindValues:
    """Return JSON texts, variables and `${…}`; in a list of values, an array supplies its items."""
    texts = arguments.texts.get(name, ())
    for text in texts:
        if "${" in text and not _WHOLE.fullmatch(text):
            raise ValueError(f"{text!r}: ${{…}} stands alone here, as in {name}=${{id}}")
    readers = [
        value if is_variable(text) or "${" in text else _constant(_decode(text))
        for text, value in zip(texts, arguments.values.get(name, ()), strict=True)
    ]
    if name == "value":
        return lambda view: [readers[0](view)]
    return lambda view: [
        item
        for text, read in zip(texts, readers, strict=True)
        for item in (items_of(read(view)) if is_variable(text) else [read(view)])
    ]


def _constant(value: Any) -> Value:
    return lambda view: value


def _decode(text: str) -> Any:
    try:
        return decode(text)
    except DocgraphError:
        raise ValueError(
            f"{text!r} is not JSON; a text needs double quotes inside the single quotes"
        ) from None


_KEYS = Parameter("keys", is_list=True, is_fixed=True)
_KEY = Parameter("key", is_fixed=True)

BODY_WORDS: dict[str, AccessFunction] = {
    "bson-request-contains": AccessFunction((_KEYS,), _build_contains),
    "bson-request-blacklist": AccessFunction((_KEYS,), _build_blacklist),
    "bson-request-whitelist": AccessFunction(
        (Parameter("keys", is_list=True, is_fixed=True, is_required=False),), _build_whitelist
    ),
    "bson-request-prop-equals": AccessFunction((_KEY, Parameter("value")), _build_equals),
    "bson-request-array-contains": AccessFunction(
        (_KEY, Parameter("values", is_list=True)), _build_array_contains
    ),
    "bson-request-array-is-subset": AccessFunction(
        (_KEY, Parameter("values", is_list=True, is_required=False)), _build_subset
    ),
}
