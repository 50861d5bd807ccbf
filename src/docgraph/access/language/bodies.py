"""Words about the documents in the body of a request to the REST API.

A body says what it writes in several ways: nested or in dot notation, plainly or inside update
operators, one document or many. Each word looks at all of them; where a body leaves open what will
be stored (`$rename`, `$push`, …), a word that asks for certain content does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from docgraph.access.language.values import Value, is_same, items_of
from docgraph.access.language.view import BODY, NoValue, RequestView
from docgraph.access.language.word import Arguments, Parameter, Test, Word
from docgraph.codec import decode
from docgraph.exchange.errors import DocgraphError

__all__ = ["BODY_WORDS", "contains_key", "find_written", "written_paths"]

Steps = tuple[str, ...]

_SETTERS: Final = frozenset({"$set", "$setOnInsert"})
_MAX_DEPTH: Final = 200


def split_key(key: str) -> Steps:
    """The steps of a key in dot notation; positions in arrays do not count."""
    first, *rest = key.split(".")
    return (first, *(step for step in rest if not step.isdigit() and step[:1] != "$"))


def contains_key(value: Any, steps: Steps, *, top: bool = True) -> bool:
    """Whether the key is there, flat or nested; in arrays every element must have it."""
    if not steps:
        return True
    if isinstance(value, list):
        return bool(value) and all(contains_key(item, steps, top=top) for item in value)
    if not isinstance(value, dict):
        return False
    for key, inner in value.items():
        own = split_key(key)
        if steps[: len(own)] == own and contains_key(inner, steps[len(own) :], top=False):
            return True
        if top and key[:1] == "$" and contains_key(inner, steps, top=False):
            return True
    return False


def written_paths(body: Any) -> Iterator[Steps]:
    """The path of every leaf that the body writes; operators themselves do not count."""
    for document in _documents(body):
        for key, value in document.items():
            if key[:1] != "$":
                yield from _leaves(value, split_key(key))
            elif isinstance(value, dict):
                for inner, content in value.items():
                    yield from _leaves(content, split_key(inner))
                    if key == "$rename" and isinstance(content, str):
                        yield split_key(content)
            else:
                yield (key,)  # `$unset: "a"` of a pipeline, or nonsense: nobody lists that


def _leaves(value: Any, path: Steps, depth: int = 0) -> Iterator[Steps]:
    if depth > _MAX_DEPTH:
        raise NoValue("the body is nested too deeply")
    if isinstance(value, dict) and value and not any(key[:1] == "$" for key in value):
        for key, inner in value.items():
            first, *rest = split_key(key)
            steps = () if first.isdigit() else (first,)
            yield from _leaves(inner, (*path, *steps, *rest), depth + 1)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for item in value:
            yield from _leaves(item, path, depth + 1)
    else:
        yield path


def find_written(body: Any, steps: Steps) -> list[Any] | None:
    """Every value that the body stores at the key; None where that cannot be told."""
    found: list[Any] = []
    for document in _documents(body):
        values = list(_find_in_document(document, steps))
        if not values or any(value is _UNCLEAR for value in values):
            return None
        found += values
    return found or None


_UNCLEAR: Final = object()


def _find_in_document(document: dict[str, Any], steps: Steps) -> Iterator[Any]:
    for key, value in document.items():
        if key in _SETTERS and isinstance(value, dict):
            yield from _find_plain(value, steps)
        elif key[:1] == "$":
            paths = written_paths({key: value})
            if any(_overlap(path, steps) or path[0][:1] == "$" for path in paths):
                yield _UNCLEAR
        else:
            yield from _find_plain({key: value}, steps)


def _find_plain(value: Any, steps: Steps) -> Iterator[Any]:
    if not steps:
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            own = split_key(key)
            if own == steps[: len(own)]:
                # `roles.0` stores a part of `roles`: what the whole is then, nobody knows.
                exact = len(own) == len(key.split("."))
                yield from _find_plain(inner, steps[len(own) :]) if exact else (_UNCLEAR,)
            elif steps == own[: len(steps)]:
                yield _UNCLEAR
    elif isinstance(value, list):
        for item in value:
            yield from _find_plain(item, steps)


def _overlap(left: Steps, right: Steps) -> bool:
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def _documents(body: Any) -> Sequence[dict[str, Any]]:
    documents = body if isinstance(body, list) else [body]
    return [one for one in documents if isinstance(one, dict)]


# --- the words ------------------------------------------------------------------------------------

Values = Callable[[RequestView], list[Any]]


def _on_body(test: Callable[[Any], bool]) -> Test:
    """A test of the body; other services than the REST API have none to look at."""
    return lambda view: view.has_document and test(view.get(BODY))


def _on_property(arguments: Arguments, test: Callable[[Any, list[Any]], bool], name: str) -> Test:
    """A test of every value that the body stores at the key, against those of the rule."""
    key, expected = split_key(arguments.text("key") or ""), _read_values(arguments, name)

    def test_property(view: RequestView) -> bool:
        if not view.has_document:
            return False
        found = find_written(view.get(BODY), key)
        if found is None:
            return False
        values = expected(view)
        return all(test(value, values) for value in found)

    return test_property


def _build_contains(arguments: Arguments) -> Test:
    keys = [split_key(key) for key in arguments.texts["keys"]]
    return _on_body(lambda body: all(contains_key(body, key) for key in keys))


def _build_blacklist(arguments: Arguments) -> Test:
    keys = [split_key(key) for key in arguments.texts["keys"]]

    def test(body: Any) -> bool:
        return not any(path[: len(key)] == key for path in written_paths(body) for key in keys)

    return _on_body(test)


def _build_whitelist(arguments: Arguments) -> Test:
    keys = [split_key(key) for key in arguments.texts.get("keys", ())]

    def test(body: Any) -> bool:
        return all(any(path[: len(key)] == key for key in keys) for path in written_paths(body))

    return _on_body(test)


def _build_equals(arguments: Arguments) -> Test:
    return _on_property(arguments, lambda value, expected: is_same(value, expected[0]), "value")


def _build_array_contains(arguments: Arguments) -> Test:
    def test(value: Any, expected: list[Any]) -> bool:
        return isinstance(value, list) and all(_has(value, one) for one in expected)

    return _on_property(arguments, test, "values")


def _build_subset(arguments: Arguments) -> Test:
    def test(value: Any, allowed: list[Any]) -> bool:
        return isinstance(value, list) and all(_has(allowed, item) for item in value)

    return _on_property(arguments, test, "values")


def _has(values: Sequence[Any], wanted: Any) -> bool:
    return any(is_same(value, wanted) for value in values)


def _read_values(arguments: Arguments, name: str) -> Values:
    """JSON texts, variables and `${…}`; of a list of values, an array gives its items."""
    texts = arguments.texts.get(name, ())
    readers = [
        value if text[:1] == "@" or "${" in text else _constant(_decode(text))
        for text, value in zip(texts, arguments.values.get(name, ()), strict=True)
    ]
    if name == "value":
        return lambda view: [readers[0](view)]
    return lambda view: [
        item
        for text, read in zip(texts, readers, strict=True)
        for item in (items_of(read(view)) if text[:1] == "@" else [read(view)])
    ]


def _constant(value: Any) -> Value:
    return lambda view: value


def _decode(text: str) -> Any:
    try:
        return decode(text)
    except DocgraphError:
        raise ValueError(
            f"{text!r} is not JSON; a text has double quotes inside the single ones: '\"{text}\"'"
        ) from None


_KEYS = Parameter("keys", is_list=True, is_fixed=True)
_KEY = Parameter("key", is_fixed=True)

BODY_WORDS: dict[str, Word] = {
    "bson-request-contains": Word((_KEYS,), _build_contains),
    "bson-request-blacklist": Word((_KEYS,), _build_blacklist),
    "bson-request-whitelist": Word(
        (Parameter("keys", is_list=True, is_fixed=True, is_required=False),), _build_whitelist
    ),
    "bson-request-prop-equals": Word((_KEY, Parameter("value")), _build_equals),
    "bson-request-array-contains": Word(
        (_KEY, Parameter("values", is_list=True)), _build_array_contains
    ),
    "bson-request-array-is-subset": Word(
        (_KEY, Parameter("values", is_list=True, is_required=False)), _build_subset
    ),
}
