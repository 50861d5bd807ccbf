"""The regular expressions of the source keep to what `re` gets right in every supported Python."""

from __future__ import annotations

import ast
import re._constants as constants  # type: ignore[import-not-found,unused-ignore]
import re._parser as parser  # type: ignore[import-not-found,unused-ignore]
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CALLS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
FAULTY = {constants.POSSESSIVE_REPEAT, constants.ATOMIC_GROUP}
UNKNOWN = "x"  # stands for what is only known when the program runs


def patterns(source: str) -> Iterator[str]:
    """Every pattern that a module gives to `re`, or to a type as its `pattern=`."""
    if "import re\n" not in source and "pattern=" not in source:
        return  # to read and walk all modules takes seconds
    tree = ast.parse(source)
    texts: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                texts[name] = value
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                texts[name] = value
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("re"), called), args=[first, *_]) if (
                called in CALLS
            ):
                yield render(first, texts)
            case ast.keyword("pattern", value):
                yield render(value, texts)


def render(node: ast.expr, texts: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.Constant(bytes(text)):
            return text.decode("latin-1")
        case ast.JoinedStr(values):
            return "".join(render(value, texts) for value in values)
        case ast.FormattedValue(value):
            return render(value, texts)
        case ast.BinOp(left, ast.Add(), right):
            return render(left, texts) + render(right, texts)
        case ast.Name(name) if name in texts:
            return render(texts[name], {key: texts[key] for key in texts if key != name})
        case _:
            return UNKNOWN


def operations(parsed: Any) -> Iterator[Any]:
    """The operations of a parsed pattern, with those of its groups."""
    if isinstance(parsed, parser.SubPattern):
        for operation, argument in parsed:
            yield operation
            yield from operations(argument)
    elif isinstance(parsed, list | tuple):
        for part in parsed:
            yield from operations(part)


def is_faulty(pattern: str) -> bool:
    with warnings.catch_warnings(action="ignore"):
        return not FAULTY.isdisjoint(operations(parser.parse(pattern)))


@pytest.mark.parametrize("pattern", ["a*+", "(?:a|b)++", "a?+", "a{1,2}+", "(?>a)", "(?=(b++))"])
def test_possessive_and_atomic_are_recognized(pattern: str) -> None:
    assert is_faulty(pattern)


@pytest.mark.parametrize("pattern", ["[*+]", r"\*+", "a+b", "[?+]*", "(?:a)+"])
def test_other_plus_signs_are_none(pattern: str) -> None:
    assert not is_faulty(pattern)


def test_patterns_are_found_in_every_notation() -> None:
    source = """
word = r"a"
first = re.compile(rf"{word}*+" + "b")
second: str = Meta(pattern="c")
re.fullmatch(word, text)
re.compile(rb"d")
"""
    assert sorted(patterns(source)) == ["a", "a*+b", "c", "d"]


def test_no_pattern_is_possessive_or_atomic() -> None:
    """Python 3.11.2, Debian 12's own, answers wrongly for both."""
    found = {
        (path.relative_to(ROOT).as_posix(), pattern)
        for base in (ROOT / "src", *ROOT.glob("*/src"))
        for path in base.rglob("*.py")
        for pattern in patterns(path.read_text(encoding="utf-8"))
    }

    assert len(found) > 50
    assert not sorted(place for place in found if is_faulty(place[1]))
