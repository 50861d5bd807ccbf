"""The reference page of all error codes, rendered from the source.

Written to `docs/reference/error-codes.md` by `python tools/error_codes.py`; a test keeps the
committed page up to date. The codes and their statuses are read from the source, the words about
them from `error_codes.yml`: a code without words, and words without a code, are errors.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import yaml

__all__ = ["SOURCE", "find_made", "find_raised", "render"]

Words = Mapping[str, Mapping[str, str]]

SOURCE: Final = Path(__file__).parents[1] / "src" / "docgraph"
_WORDS: Final = Path(__file__).with_suffix(".yml")
_CODE: Final = re.compile(r"[a-z]+(?:-[a-z]+)+|[A-Z]+(?:_[A-Z]+)+")  # those of Apollo, too
_MARKS: Final = re.compile(
    r"\bcode: ClassVar|, code = |FieldFailure\(|BadWhere\(|because\(|GraphqlError\("
)
_BASE: Final = "DocgraphError"
_MAKERS: Final = frozenset(("FieldFailure", "BadWhere", "located", "because", "GraphqlError"))
# `f"bad-{name}"` is made of the name of an option of a mapping.
_NAMES: Final = ("limit", "skip")

_HEAD: Final = """\
# Error codes

<!-- Rendered by `python tools/error_codes.py`; do not edit. -->

Every error has a code for programs to rely on: it is never renamed and never gets another meaning
([stability](../explanation/stability.md)). Messages are for people and may change. The code is

| In | As |
|---|---|
| an answer of GraphQL | `errors[].extensions.code` ([shape](graphql-http.md#errors)) |
| an answer of any other service | `code`, next to `message` and perhaps `hint` |
| an answer to an agent (`/mcp`) | `error.data.code`, and in the results of tools as in GraphQL |
| the log | `error` of `request-finished` |

401 `unauthenticated` and 403 `forbidden` have the same body for every path, app and rule, existing
or not: they never say why. `docgraph access explain` does. An error whose cause is not for callers
carries an `id`; the log has the rest under that `id`. Change streams end with
[reasons of their own](streams.md#the-end).

"""

_SECTIONS: Final = (
    ("Requests", "request", "Any service may answer these."),
    ("GraphQL: the request as a whole", "operation", "`data` is `null`, the status is 400."),
    (
        "GraphQL: a field",
        "field",
        "The field, or the next nullable one above it, is `null`; the status is 200 as long as\n"
        "there is other data. Codes from above may also appear here.",
    ),
)


def render(source: Path = SOURCE) -> str:
    """The page as Markdown; `ValueError` where words and codes do not meet."""
    statuses = find_raised(source)
    words = yaml.safe_load(_WORDS.read_text())
    written = {code for section in words.values() for code in section}
    if astray := (statuses.keys() | find_made(source)) ^ written:
        raise ValueError(f"{_WORDS.name} and the source differ in {', '.join(sorted(astray))}")
    sections = (
        line
        for title, name, text in _SECTIONS
        for line in (f"## {title}\n\n{text}\n", *_render_table(words[name], statuses), "")
    )
    return _HEAD + "\n".join(sections)


def _render_table(words: Words, statuses: Mapping[str, int]) -> Iterator[str]:
    """A row for each code, with the status where it has one of its own."""
    has_status = words.keys() <= statuses.keys()
    yield f"| Code | {'Status | ' if has_status else ''}Meaning | What to do |"
    yield f"|---|{'---|' if has_status else ''}---|---|"
    for code, word in words.items():
        status = f"{statuses[code]} | " if has_status else ""
        yield f"| `{code}` | {status}{word['meaning']} | {word['remedy']} |"


def find_raised(source: Path = SOURCE) -> dict[str, int]:
    """The codes of the classes of errors, with their statuses."""
    classes = {
        node.name: node
        for tree in _parse(source)
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, int] = {}
    for name, node in classes.items():
        own = dict(_read_assignments(node))
        if "code" in own and _is_error(name, classes):
            status = _inherit("status", name, classes)
            found[str(own["code"])] = status if isinstance(status, int) else 0
    return found


def find_made(source: Path = SOURCE) -> set[str]:
    """The codes that GraphQL gives to errors without a class of their own."""
    return {
        code
        for tree in _parse(source)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _name_of(node.func) in _MAKERS
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
        for code in _read_codes(argument)
    }


@cache
def _parse(source: Path) -> tuple[ast.Module, ...]:
    """The files with codes in them: most have none, and parsing takes its time."""
    texts = (path.read_text() for path in sorted(source.rglob("*.py")))
    return tuple(ast.parse(text) for text in texts if _MARKS.search(text))


def _is_error(name: str, classes: Mapping[str, ast.ClassDef]) -> bool:
    if name == _BASE:
        return True
    bases = classes[name].bases if name in classes else []
    return any(_is_error(_name_of(base), classes) for base in bases)


def _inherit(attribute: str, name: str, classes: Mapping[str, ast.ClassDef]) -> object:
    own = dict(_read_assignments(classes[name]))
    if attribute in own or name == _BASE:
        return own.get(attribute)
    return _inherit(attribute, _name_of(classes[name].bases[0]), classes)


def _read_assignments(node: ast.ClassDef) -> Iterator[tuple[str, object]]:
    """`status, code = 400, "bad-request"` and `code: ClassVar[str] = "bad-value"`."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Constant):
            yield _name_of(statement.target), statement.value.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
            (targets,) = statement.targets
            if isinstance(targets, ast.Tuple):
                for target, value in zip(targets.elts, statement.value.elts, strict=True):
                    if isinstance(value, ast.Constant):
                        yield _name_of(target), value.value


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else str(getattr(node, "id", ""))


def _read_codes(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and _CODE.fullmatch(str(node.value)):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else "*" for one in node.values]
        text = "".join(map(str, parts))
        if re.fullmatch(r"[a-z]+-\*", text):
            yield from (text.replace("*", name) for name in _NAMES)


if __name__ == "__main__":
    sys.stdout.write(render())
