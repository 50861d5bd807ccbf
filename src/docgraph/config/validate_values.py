"""Validation of configuration values against the types of a section, collecting all mistakes.

msgspec stops at the first mistake and does not know lines. This walk finds all mistakes, converts
sizes and paths to their final form, and returns plain values that msgspec accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import inspect

from docgraph.config.config_node import ConfigNode, Origin, to_plain
from docgraph.config.nearest import find_nearest
from docgraph.config.options import (
    Option,
    describe_kind,
    describe_value,
    is_secret,
    options_of,
    unwrap,
)
from docgraph.config.parse import parse_size
from docgraph.exchange.errors import Problem

_LONGEST_NUMBER = 19


class _Invalid:
    """Placeholder for an invalid value that has been reported."""


INVALID = _Invalid()

ResolvePath = Callable[[str, Origin, Mapping[str, Any]], str]
Explain = Callable[[str, str, type[msgspec.Struct]], str | None]


@dataclass(frozen=True, slots=True)
class _OptionLocation:
    """The option that a value is for."""

    path: str
    extra: Mapping[str, Any]
    secret: bool


@dataclass(slots=True)
class Checker:
    """One walk over a section; `resolve_path` makes paths absolute, `explain` unknown names."""

    resolve_path: ResolvePath
    explain: Explain
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def check_struct(
        self, node: ConfigNode, struct: type[msgspec.Struct], path: str
    ) -> dict[str, Any] | _Invalid:
        """Return the plain values of the given options; report and leave out invalid ones."""
        if node.value is None:
            return {}
        if not isinstance(node.value, Mapping):
            got = describe_value(node, secret=True)
            return self._report(node.origin, path, f"expected a mapping of options, got {got}")
        options = options_of(struct)
        values: dict[str, Any] = {}
        for name, child in node.value.items():
            option = options.get(name)
            if option is None:
                hint = self.explain(name, path, struct)
                self._report(child.place, f"{path}/{name}", "unknown option", hint)
                continue
            value = self._check_option(child, option, f"{path}/{name}")
            if value is not INVALID:
                values[name] = value
        self._replace_deprecated(node.value, options, values, path)
        self._require(node, node.value, options, path)
        return values

    def _check_option(self, node: ConfigNode, option: Option, path: str) -> Any:
        # A connection string that does not parse may be nothing but its password.
        secret = is_secret(option.name, option.extra) or "connection-string" in option.extra
        place = _OptionLocation(path, option.extra, secret)
        return self._check(node, option.kind, place)

    def _replace_deprecated(
        self,
        given: Mapping[str, ConfigNode],
        options: Mapping[str, Option],
        values: dict[str, Any],
        path: str,
    ) -> None:
        for name, option in options.items():
            if name not in given or "deprecated" not in option.extra:
                continue
            self.warnings.append(
                Problem(
                    str(given[name].place),
                    f"{path}/{name}",
                    "a deprecated option",
                    option.extra["deprecated"],
                )
            )
            heir = options.get(option.extra.get("replaced-by", ""))
            if heir is not None and heir.name not in given and values.get(name) is not None:
                value = self._check_option(given[name], heir, f"{path}/{name}")
                if value is not INVALID:
                    values[heir.name] = value

    def _require(
        self,
        node: ConfigNode,
        given: Mapping[str, ConfigNode],
        options: Mapping[str, Option],
        path: str,
    ) -> None:
        # A misspelled name has been reported; do not also report the right one as missing.
        misspelt = {find_nearest(name, options) for name in given if name not in options}
        for name, option in options.items():
            if option.required and name not in given and name not in misspelt:
                self._report(node.place, path, f"'{name}' is missing")

    def _check(self, node: ConfigNode, kind: inspect.Type, place: _OptionLocation) -> Any:
        match kind:
            case inspect.Metadata():
                bare, extra = unwrap(kind)
                merged = _OptionLocation(place.path, {**extra, **place.extra}, place.secret)
                return self._check(node, bare, merged)
            case inspect.UnionType():
                fitting = [member for member in kind.types if _fits(node, member)]
                if not fitting:
                    return self._report_kind(node, kind, place)
                return self._check(node, fitting[0], place)
            case inspect.StructType():
                return self.check_struct(node, kind.cls, place.path)
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
                return self._check_list(node, kind, place)
            case inspect.DictType():
                return self._check_mapping(node, kind, place)
            case inspect.LiteralType():
                return self._check_choice(node, kind.values, kind, place)
            case inspect.EnumType():
                return self._check_choice(node, [m.value for m in kind.cls], kind, place)
        return self._check_scalar(node, kind, place)

    def _check_list(
        self,
        node: ConfigNode,
        kind: inspect.ListType | inspect.VarTupleType | inspect.SetType,
        place: _OptionLocation,
    ) -> Any:
        if not isinstance(node.value, tuple):
            hint = "write it as a list: [value]" if isinstance(node.value, str) else None
            return self._report_kind(node, kind, place, hint)
        if len(node.value) < (kind.min_length or 0):
            return self._report(node.origin, place.path, "must not be empty")
        if kind.max_length is not None and len(node.value) > kind.max_length:
            return self._report(
                node.origin, place.path, f"more than {kind.max_length} entries: {len(node.value)}"
            )
        items = [
            self._check(
                child,
                kind.item_type,
                _OptionLocation(f"{place.path}[{number}]", place.extra, place.secret),
            )
            for number, child in enumerate(node.value, 1)
        ]
        return INVALID if INVALID in items else items

    def _check_mapping(
        self, node: ConfigNode, kind: inspect.DictType, place: _OptionLocation
    ) -> Any:
        if not isinstance(node.value, Mapping):
            return self._report_kind(node, kind, place)
        if not all(
            [self._check_key(name, child, kind, place) for name, child in node.value.items()]
        ):
            return INVALID
        items = {
            name: self._check(
                child,
                kind.value_type,
                _OptionLocation(f"{place.path}/{name}", {}, place.secret or is_secret(name, {})),
            )
            for name, child in node.value.items()
        }
        return INVALID if INVALID in items.values() else items

    def _check_key(
        self, name: str, child: ConfigNode, kind: inspect.DictType, place: _OptionLocation
    ) -> bool:
        """Return whether a key is valid; a key among secrets may be a secret itself."""
        bare, extra = unwrap(kind.key_type)
        pattern = getattr(bare, "pattern", None)
        if pattern is None or re.search(pattern, name):
            return True
        got = "another" if place.secret else repr(name)
        what = f"expected {describe_kind(bare, extra)} before the colon, got {got}"
        self._report(child.place, place.path, what)
        return False

    def _check_choice(
        self, node: ConfigNode, choices: Any, kind: inspect.Type, place: _OptionLocation
    ) -> Any:
        for choice in choices:
            if node.value == choice and type(node.value) is type(choice):
                return choice
        hint = None
        if isinstance(node.value, str) and not place.secret:
            nearest = find_nearest(node.value, [str(choice) for choice in choices])
            hint = f"did you mean '{nearest}'?" if nearest else None
        return self._report_kind(node, kind, place, hint)

    def _check_scalar(self, node: ConfigNode, kind: inspect.Type, place: _OptionLocation) -> Any:
        match kind:
            case inspect.BoolType():
                ok = isinstance(node.value, bool)
            case inspect.IntType() | inspect.FloatType():
                return self._check_number(node, kind, place)
            case inspect.StrType():
                return self._check_text(node, kind, place)
            case inspect.NoneType():
                ok = node.value is None
            case _:
                # Any, and types that only msgspec knows: msgspec validates the section at the end.
                return to_plain(node)
        return node.value if ok else self._report_kind(node, kind, place, _hint_boolean(node, kind))

    def _check_number(
        self, node: ConfigNode, kind: inspect.IntType | inspect.FloatType, place: _OptionLocation
    ) -> Any:
        value = node.value
        if isinstance(value, str) and place.extra.get("size"):
            value = parse_size(value)
        whole = isinstance(kind, inspect.IntType)
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not fits or not isinstance(value, int | float):
            return self._report_kind(node, kind, place, _hint_number(node))
        if message := _explain_range(value, kind):
            got = "" if place.secret else f", got {value}"
            return self._report(node.origin, place.path, f"{message}{got}")
        return value

    def _check_text(self, node: ConfigNode, kind: inspect.StrType, place: _OptionLocation) -> Any:
        text = node.value
        if not isinstance(text, str):
            scalar = isinstance(text, int | float)
            return self._report_kind(node, kind, place, "put it in quotes" if scalar else None)
        if len(text) < (kind.min_length or 0):
            return self._report(node.origin, place.path, "must not be empty")
        if kind.max_length is not None and len(text) > kind.max_length:
            return self._report(
                node.origin, place.path, f"longer than {kind.max_length} characters"
            )
        if kind.pattern is not None and not re.search(kind.pattern, text):
            return self._report_kind(node, kind, place)
        if place.extra.get("path"):
            return self.resolve_path(text, node.origin, place.extra)
        return text

    def _report_kind(
        self, node: ConfigNode, kind: inspect.Type, place: _OptionLocation, hint: str | None = None
    ) -> _Invalid:
        expected = describe_kind(kind, place.extra)
        got = describe_value(node, secret=place.secret)
        return self._report(node.origin, place.path, f"expected {expected}, got {got}", hint)

    def _report(self, origin: Origin, path: str, message: str, hint: str | None = None) -> _Invalid:
        self.problems.append(Problem(str(origin), path, message, hint))
        return INVALID


_KINDS: dict[type, tuple[type, ...]] = {
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.StrType: (str,),
    inspect.NoneType: (type(None),),
    inspect.LiteralType: (str, int),
    inspect.EnumType: (str, int),
    inspect.ListType: (tuple,),
    inspect.VarTupleType: (tuple,),
    inspect.SetType: (tuple,),
    inspect.DictType: (dict,),
    inspect.StructType: (dict,),
}


def _fits(node: ConfigNode, kind: inspect.Type) -> bool:
    """Return whether a value fits a member of a union."""
    bare, extra = unwrap(kind)
    if extra.get("size") and isinstance(node.value, str):
        return True
    accepted = _KINDS.get(type(bare))
    if accepted is None:
        return True
    if isinstance(node.value, bool):
        return bool in accepted
    return isinstance(node.value, accepted)


def _hint_boolean(node: ConfigNode, kind: inspect.Type) -> str | None:
    if not isinstance(kind, inspect.BoolType) or not isinstance(node.value, str):
        return None
    text = node.value.lower()
    if text in {"yes", "y", "on", "true"}:
        return "write true, without quotes"
    return "write false, without quotes" if text in {"no", "n", "off", "false"} else None


def _hint_number(node: ConfigNode) -> str | None:
    if not isinstance(node.value, str):
        return None
    digits = node.value.replace("_", "").replace(" ", "").replace("'", "")
    if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER:
        return f"write {digits}, without quotes"
    return None


def _explain_range(value: float, kind: inspect.IntType | inspect.FloatType) -> str | None:
    low, high = kind.ge, kind.le
    if low is not None and high is not None and not low <= value <= high:
        return f"must be between {low} and {high}"
    if low is not None and not value >= low:
        return f"must be at least {low}"
    if high is not None and not value <= high:
        return f"must be at most {high}"
    if kind.gt is not None and not value > kind.gt:
        return f"must be greater than {kind.gt}"
    if kind.lt is not None and not value < kind.lt:
        return f"must be less than {kind.lt}"
    return None
