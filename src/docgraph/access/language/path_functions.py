"""Predicates on the path: whole segments of the decoded, normalized path that is served."""

from __future__ import annotations

import re
from typing import Any, Final

from docgraph.access.language.function import (
    EVERYWHERE,
    AccessFunction,
    FunctionArguments,
    Reach,
    Test,
    is_variable,
    reach_of,
    text_of,
)
from docgraph.access.language.view import RequestView
from docgraph.exchange.request import Segments
from docgraph.predicates import Parameter
from docgraph.predicates import PredicateArguments as Texts

_VARIABLE = re.compile(r"\{([\w.-]+)\}")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_REST: Final = "*"


def split_path(text: str) -> Segments:
    """Split a path as a rule writes it: decoded, slashes at the ends do not count."""
    segments = tuple(part for part in text.split("/") if part)
    if _ESCAPE.search(text):
        raise ValueError(f"{text!r}: paths of rules are written decoded, without escapes")
    if "." in segments or ".." in segments:
        raise ValueError(f"{text!r} has '.' or '..' in it, which no path that is served has")
    return segments


class PathTemplate:
    """`/users/{id}/*`: a name matches one segment, `*` at the end one or more."""

    def __init__(self, segments: Segments) -> None:
        self._has_rest = segments[-1:] == (_REST,)
        self._parts = segments[:-1] if self._has_rest else segments
        self._names = tuple(_read_name(part) for part in self._parts)
        self.names = frozenset(name for name in self._names if name is not None)
        named = (place for place, name in enumerate(self._names) if name is not None)
        self.head = self._parts[: next(named, None)]  # the common prefix of all matching paths

    def match(self, segments: Segments) -> dict[str, str] | None:
        """Return the segments that the names match, or None."""
        count = len(self._parts)
        if len(segments) <= count if self._has_rest else len(segments) != count:
            return None
        matched: dict[str, str] = {}
        for part, name, segment in zip(self._parts, self._names, segments, strict=False):
            if name is None:
                if part != segment:
                    return None
            elif matched.setdefault(name, segment) != segment:
                return None
        if self._has_rest:
            matched[_REST] = "/".join(segments[count:])
        return matched


def parse_template(text: str) -> PathTemplate:
    """Parse a template; raises ValueError."""
    segments = split_path(text)
    for segment in segments:
        if ("{" in segment or "}" in segment) and not _VARIABLE.fullmatch(segment):
            raise ValueError(f"{segment!r}: a name in braces must be a whole segment")
    return PathTemplate(segments)


def _read_name(part: str) -> str | None:
    match = _VARIABLE.fullmatch(part)
    return match[1] if match else None


def _build_path(arguments: FunctionArguments) -> Test:
    if _are_fixed(arguments.texts["path"]):
        wanted = frozenset(map(split_path, arguments.texts["path"]))
        return lambda view: view.segments in wanted
    values = arguments.values["path"]
    return lambda view: any(view.segments == _read_path(value(view)) for value in values)


def _read_path(value: Any) -> Segments:
    """Return a path that a variable supplies: segments unchanged, never resolved."""
    return tuple(part for part in text_of(value).split("/") if part)


def _build_prefix(arguments: FunctionArguments) -> Test:
    arguments.scope.bound.add("remaining")
    if not _are_fixed(arguments.texts["path"]):
        values = arguments.values["path"]

        def test_values(view: RequestView) -> bool:
            return any(_starts(view, _read_path(value(view))) for value in values)

        return test_values
    prefixes = [split_path(text) for text in arguments.texts["path"]]
    if len(prefixes) == 1:
        prefix = prefixes[0]
        return lambda view: _starts(view, prefix)
    return lambda view: any(_starts(view, prefix) for prefix in prefixes)


def _starts(view: RequestView, prefix: Segments) -> bool:
    length = len(prefix)
    if view.segments[:length] != prefix:
        return False
    if not view.is_retyped:  # as a text it would name another document
        view.bind({"remaining": "/" + "/".join(view.segments[length:])})
    return True


def _build_suffix(arguments: FunctionArguments) -> Test:
    suffixes = [tuple(text.rstrip("/").split("/")) for text in arguments.texts["path"]]
    return lambda view: any(_ends(view.segments, suffix) for suffix in suffixes)


def _ends(segments: Segments, suffix: Segments) -> bool:
    """Return whether the last segments are those of the suffix.

    The first segment of the suffix may be the end of a segment.
    """
    first, rest = suffix[0], suffix[1:]
    split = len(segments) - len(rest)
    if split < 0 or segments[split:] != rest:
        return False
    return not first or (split > 0 and segments[split - 1].endswith(first))


def _build_template(arguments: FunctionArguments) -> Test:
    templates = [parse_template(text) for text in arguments.texts["value"]]
    for template in templates:
        arguments.scope.bound |= template.names

    def test(view: RequestView) -> bool:
        for template in templates:
            matched = template.match(view.segments)
            if matched is not None:
                view.bind(matched)
                return True
        return False

    return test


def _are_fixed(texts: tuple[str, ...]) -> bool:
    return not any(
        "${" in text or "%{" in text or text[:1] == "%" or is_variable(text) for text in texts
    )


def _reach_paths(texts: Texts) -> Reach | None:
    return reach_of(map(split_path, texts["path"])) if _are_fixed(texts["path"]) else None


def _reach_templates(texts: Texts) -> Reach:
    return reach_of(parse_template(text).head for text in texts["value"])


_PATHS = (Parameter("path", is_list=True),)
_FIXED_PATHS = (Parameter("path", is_list=True, is_fixed=True),)
_TEMPLATES = (Parameter("value", is_list=True, is_fixed=True),)

PATH_WORDS: dict[str, AccessFunction] = {
    "path": AccessFunction(_PATHS, _build_path, _reach_paths),
    "path-prefix": AccessFunction(_PATHS, _build_prefix, _reach_paths),
    "path-suffix": AccessFunction(_FIXED_PATHS, _build_suffix, lambda texts: EVERYWHERE),
    "path-template": AccessFunction(_TEMPLATES, _build_template, _reach_templates),
}
