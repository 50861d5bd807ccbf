"""The configuration of RESTHeart: its file, its overrides and its defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from docgraph.config.config_node import EMPTY, ConfigNode, Origin, merge, to_plain
from docgraph.config.config_tree import (
    Override,
    PathError,
    apply_override,
    parse_entries,
    read_entry,
)
from docgraph.config.parse import parse_yaml, resolve_scalar
from docgraph.config.sources import load_file, read_text
from docgraph.exchange import ConfigError, Problem

# What version 8 has otherwise than version 9: it has JWT off and random tokens on.
_DEFAULTS_OF_8: Final[Mapping[str, Mapping[str, Any]]] = {
    "jwtAuthenticationMechanism": {"enabled": False},
    "authCookieSetter": {"enabled": False},
    "authCookieHandler": {"enabled": False},
    "authCookieRemover": {"enabled": False},
    "rndTokenManager": {"enabled": True},
    "jwtTokenManager": {"enabled": False, "srv-uri": "/tokens"},
    "authTokenService": {"uri": "/tokens"},
    "aggregationSecurity": {"stageBlacklist": ["$out", "$merge"]},
}
_OLD_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9_]*")
_OLD_BOOLEANS: Final = {"yes": True, "on": True, "no": False, "off": False}
_SELECTOR: Final = re.compile(r"""\[\s*([\w-]+)\s*=\s*(?:'([^']*)'|"([^"]*)")\s*\]""")


class OptionAction(NamedTuple):
    """The conversion of an option: a row of `restheart_options.yml`."""

    default: Any
    action: str
    remark: str = ""


@cache
def load_actions() -> Mapping[tuple[str, str], OptionAction]:
    """Return the table of all options by section and option; an option "" is the section."""
    text = files(__package__).joinpath("restheart_options.yml").read_text("utf-8")
    node = parse_yaml(text, lambda line, column: Origin("table", line + 1)).node
    assert node is not None  # noqa: S101 - it is part of the package
    actions = {}
    for section, options in to_plain(node).items():
        listed = options.items() if isinstance(options, dict) else [("", options)]
        for option, row in listed:
            actions[section, option] = OptionAction(*row)
    return actions


@dataclass(frozen=True)
class RestheartConfig:
    """The values that are set, and the defaults of the version for all others."""

    root: ConfigNode = EMPTY

    @cached_property
    def sections(self) -> Mapping[str, Any]:
        """The sections that are set, as plain values."""
        plain = to_plain(self.root)
        return plain if isinstance(plain, dict) else {}

    @property
    def is_latest(self) -> bool:
        """Whether it is of version 9: only that has `jwtConfigProvider`."""
        return "jwtConfigProvider" in self.sections

    @property
    def version(self) -> int:
        """The major version."""
        return 9 if self.is_latest else 8

    def is_set(self, section: str, option: str) -> bool:
        """Return whether a file or an override sets the option."""
        found = self.sections.get(section)
        if not option:
            return section in self.sections
        return isinstance(found, dict) and option in found

    def get(self, section: str, option: str) -> Any:
        """Return the value in effect."""
        found = self.sections.get(section)
        if not option:
            return found
        if isinstance(found, dict) and option in found:
            return found[option]
        if not self.is_latest and option in _DEFAULTS_OF_8.get(section, {}):
            return _DEFAULTS_OF_8[section][option]
        row = load_actions().get((section, option))
        return None if row is None else row.default


def load_restheart(file: Path, overrides: Path | None, environment: str | None) -> RestheartConfig:
    """Read the file and what overrides it; raise `ConfigError` with every mistake."""
    root = _merge_keys(load_file(file, "CONFIG", resolve_old_scalar))
    if not isinstance(root.value, Mapping):
        raise ConfigError([Problem(str(file), "/", "not a mapping of sections")])
    if overrides is not None and overrides.suffix == ".conf":
        text = read_text(overrides, "--override")
        root = _apply_entries(root, text, Origin(str(overrides)), lines=True)
    elif overrides is not None:
        loaded = load_file(overrides, "--override", resolve_old_scalar)
        root = _apply_mapping(root, _merge_keys(loaded))
    if environment:
        root = _apply_entries(root, environment, Origin("RHO"), lines=False)
    return RestheartConfig(root)


def _merge_keys(node: ConfigNode) -> ConfigNode:
    """Apply the merge keys (`<<`) of YAML 1.1."""
    if isinstance(node.value, tuple):
        return replace(node, value=tuple(map(_merge_keys, node.value)))
    if not isinstance(node.value, Mapping):
        return node
    entries = {name: _merge_keys(child) for name, child in node.value.items()}
    merged: dict[str, ConfigNode] = {}
    if (bases := entries.pop("<<", None)) is not None:
        for base in reversed(bases.value if isinstance(bases.value, tuple) else (bases,)):
            merged |= base.value if isinstance(base.value, Mapping) else {}
    return replace(node, value={**merged, **entries})


def _apply_mapping(root: ConfigNode, node: ConfigNode) -> ConfigNode:
    """Apply a file of `/path: value` entries; sections without a slash are merged."""
    entries = node.value if isinstance(node.value, Mapping) else {}
    nested = {name: child for name, child in entries.items() if name[:1] != "/"}
    root = merge(root, ConfigNode(nested, node.origin))
    for name, child in entries.items():
        if name[:1] == "/":
            root = _apply(root, Override(name, child), child.place)
    return root


def _apply_entries(root: ConfigNode, text: str, origin: Origin, *, lines: bool) -> ConfigNode:
    entries, problems = parse_entries(text, lambda line, column: origin, lines=lines)
    for entry in entries:
        override, found = read_entry(entry, resolve_old_scalar)
        problems.extend(found)
        if override is not None:
            root = _apply(root, override, origin)
    if problems:
        raise ConfigError(problems)
    return root


def _apply(root: ConfigNode, override: Override, origin: Origin) -> ConfigNode:
    try:
        path = _resolve_selectors(root, override.path)
        return apply_override(root, Override(path, override.node), lambda steps: None)
    except PathError as error:
        raise ConfigError([Problem(str(origin), override.path, str(error))]) from error


def _resolve_selectors(root: ConfigNode, path: str) -> str:
    """Replace `users[userid='admin']` by the number of that element, counted from 1."""
    while (selector := _SELECTOR.search(path)) is not None:
        wanted = selector[2] if selector[2] is not None else selector[3]
        items = to_plain(_find(root, path[: selector.start()]))
        numbers = [
            number
            for number, item in enumerate(items if isinstance(items, list) else (), 1)
            if isinstance(item, dict) and str(item.get(selector[1])) == wanted
        ]
        if not numbers:
            raise PathError(f"no element has {selector[1]} {wanted!r}")
        path = f"{path[: selector.start()]}[{numbers[0]}]{path[selector.end() :]}"
    return path


def _find(node: ConfigNode, path: str) -> ConfigNode:
    for step in path.strip("/").split("/"):
        name, _, number = step.removesuffix("]").partition("[")
        children = node.value if isinstance(node.value, Mapping) else {}
        node = children.get(name, EMPTY)
        if number.isdecimal():
            items = node.value if isinstance(node.value, tuple) else ()
            node = items[int(number) - 1] if 0 < int(number) <= len(items) else EMPTY
    return node


def resolve_old_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar of YAML 1.1, which has `1_000`, `yes` and `off`."""
    if "_" in text and _OLD_NUMBER.fullmatch(text):
        return int(text.replace("_", ""))
    found = _OLD_BOOLEANS.get(text.lower())
    return resolve_scalar(text) if found is None else found
