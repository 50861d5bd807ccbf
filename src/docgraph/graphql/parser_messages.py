"""Error messages of graphql-core in the words of GraphQL and JSON.

graphql-core quotes values of variables as Python writes them (`True`, `{'a': None}`), and puts the
errors of our scalars in quotes of its own.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Final

# The text after one of these was sent by the caller.
_VALUE: Final = re.compile(r"((?:non-\w+|integer|string|boolean|numeric|represent) value|found): ")
_SCALAR: Final = re.compile(
    r"(?P<before>.*?)Expected value of type '(?P<type>\w+)', but encountered error '(?P<why>.*)';"
    r" found: (?P<value>.*)\.",
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"""
    (?P<json> "(?:\\.|[^"\\])*" )
    | (?P<text> '(?:\\.|[^'\\])*' )
    | \b (?P<word> True | False | None ) \b
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def phrase(message: str) -> str:
    """Return the message for readers who do not know Python."""
    message = message.replace(" not to be None.", " not to be null.")
    if scalar := _SCALAR.fullmatch(message):
        why, value = _spell(scalar["why"]), _spell(scalar["value"])
        return (
            f"{scalar['before']}Expected value of type '{scalar['type']}': {why}; found: {value}."
        )
    marker = _VALUE.search(message)
    if marker is None:
        return message
    return message[: marker.end()] + _spell(message[marker.end() :])


def _spell(text: str) -> str:
    """Replace Python's spelling of values by that of JSON; leave JSON unchanged."""
    return _TOKEN.sub(_spell_token, text)


def _spell_token(token: re.Match[str]) -> str:
    if token["word"]:
        return _WORDS[token["word"]]
    if token["text"] is None:
        return token[0]
    try:
        return json.dumps(ast.literal_eval(token["text"]), ensure_ascii=False)
    except (SyntaxError, ValueError):
        return token[0]
