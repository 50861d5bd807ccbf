"""The words of `$typeResolver`: field-exists, field-eq, value-eq (decision 18)."""

from __future__ import annotations

from typing import Any

from docgraph.codec.decode import decode
from docgraph.codec.equality import unordered_key
from docgraph.exchange.errors import BodyError
from docgraph.predicates import Arguments, Parameter, Predicate, Vocabulary, Word
from docgraph.variables import UNBOUND, get_value, parse_path, render_path

__all__ = ["build_vocabulary"]


def build_vocabulary(paths: set[str]) -> Vocabulary:
    """The three predicates; what they look at is added to `paths` ("": the whole value)."""

    def field_exists(arguments: Arguments) -> Predicate:
        fields = [parse_path(text) for text in arguments["fields"]]
        paths.update(map(render_path, fields))
        return lambda value: all(get_value(value, path) is not UNBOUND for path in fields)

    def field_eq(arguments: Arguments) -> Predicate:
        (text,) = arguments["field"]
        path, wanted = parse_path(text), _parse_json(arguments["value"][0])
        paths.add(render_path(path))

        def holds(value: Any) -> bool:
            found = get_value(value, path)
            return found is not UNBOUND and unordered_key(found) == wanted

        return holds

    def value_eq(arguments: Arguments) -> Predicate:
        wanted = _parse_json(arguments["value"][0])
        paths.add("")
        return lambda value: unordered_key(value) == wanted

    return {
        "field-exists": Word([Parameter("fields", is_list=True, is_default=True)], field_exists),
        "field-eq": Word([Parameter("field"), Parameter("value")], field_eq),
        "value-eq": Word([Parameter("value", is_default=True)], value_eq),
    }


def _parse_json(text: str) -> Any:
    try:
        return unordered_key(decode(text))
    except BodyError as error:
        raise ValueError(
            f"the value {text!r} is not valid JSON ({error.message}); "
            "a string needs double quotes inside single quotes: '\"text\"'"
        ) from None
