"""The configuration of RESTHeart: its file, its overrides and its defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from docgraph.tools.configuration import (
    EMPTY,
    ConfigError,
    ConfigNode,
    Origin,
    Override,
    PathError,
    Problem,
    apply_override,
    from_plain,
    merge,
    parse_entries,
    parse_yaml,
    read_entry,
    read_text,
    resolve_scalar,
    to_plain,
)

_OLD: Final = 8
_LATEST: Final = 9
# Sections and options that only one of the versions has; an option "" is the section.
_MARKERS: Final[Mapping[int, Sequence[tuple[str, str]]]] = {
    _LATEST: (
        ("jwtConfigProvider", ""),
        ("aggregationSecurity", ""),
        ("accountsConfig", ""),
        ("oauthConfig", ""),
        ("authCookieSetter", "ttl"),
        ("authCookieSetter", "allow-legacy"),
        ("authTokenService", "redirect-url"),
    ),
    _OLD: (
        ("jwtTokenManager", "key"),
        ("jwtAuthenticationMechanism", "key"),
        ("authCookieSetter", "expires-ttl"),
    ),
}
_OLD_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9_]*")
_OLD_BOOLEANS: Final = {"yes": True, "on": True, "no": False, "off": False}
_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SELECTOR: Final = re.compile(r"""\[\s*([\w-]+)\s*=\s*(?:'([^']*)'|"([^"]*)")\s*\]""")


class OptionAction(NamedTuple):
    """The conversion of an option: a row of `restheart_options.yml`."""

    default: Any
    action: str
    remark: str = ""


def _load_table(name: str) -> Any:
    text = files(__package__).joinpath(name).read_text("utf-8")
    node = parse_yaml(text, lambda line, column: Origin(name, line + 1)).node
    assert node is not None  # noqa: S101 - it is part of the package
    return to_plain(node)


@cache
def load_actions() -> Mapping[tuple[str, str], OptionAction]:
    """Return the table of all options by section and option; an option "" is the section."""
    actions = {}
    for section, options in _load_table("restheart_options.yml").items():
        listed = options.items() if isinstance(options, dict) else [("", options)]
        for option, row in listed:
            actions[section, option] = OptionAction(*row)
    return actions


@cache
def load_defaults() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the defaults that differ from the default file of version 9."""
    defaults: Mapping[str, Mapping[str, Mapping[str, Any]]] = _load_table("restheart_defaults.yml")
    return defaults


@dataclass(frozen=True)
class RestheartConfig:
    """The values of the files, and those in effect where the files say nothing.

    `is_shipped`: there are only overrides, so that the default file of the version applies.
    `is_guessed`: nothing in the files tells which version they are of.
    """

    root: ConfigNode = EMPTY
    version: int = 9
    is_shipped: bool = False
    is_guessed: bool = False
    name: str = "CONFIG"

    @cached_property
    def sections(self) -> Mapping[str, Any]:
        """The sections that are set, as plain values."""
        plain = to_plain(self.root)
        return plain if isinstance(plain, dict) else {}

    def is_set(self, section: str, option: str) -> bool:
        """Return whether a file or an override sets the option."""
        configured = self.sections.get(section)
        if not option:
            return section in self.sections
        return isinstance(configured, dict) and option in configured

    def get(self, section: str, option: str) -> Any:
        """Return the value in effect."""
        configured = self.sections.get(section)
        if not option:
            return configured
        # Anything but a boolean in `enabled` is ignored there.
        options = configured if isinstance(configured, dict) else {}
        if option in options and (option != "enabled" or isinstance(options[option], bool)):
            return options[option]
        return self._find_default(section, option)

    def on(self, section: str) -> bool:
        """Return whether the plugin of the section is enabled."""
        return self.get(section, "enabled") is not False

    def _find_default(self, section: str, option: str) -> Any:
        names = ["shipped-8"] if self.is_shipped else ["code-8", "code"]
        for name in names:
            defaults = load_defaults()[name].get(section, {})
            if (self.version == _OLD or name == "code") and option in defaults:
                return defaults[option]
        row = load_actions().get((section, option))
        return None if row is None else row.default

    def locate(self, section: str, option: str) -> str:
        """Return the position of the option in the old files; else of its section."""
        node, place = self.root, self.name
        for step in (section, option):
            child = node.value.get(step) if isinstance(node.value, Mapping) else None
            if child is None:
                break
            node, place = child, str(child.place)
        return place


def load_restheart(
    file: Path | None,
    overrides: Sequence[Path] = (),
    environment: str | None = None,
    version: int | None = None,
) -> RestheartConfig:
    """Read the file and what overrides it; raise `ConfigError` with every mistake.

    Without a file the default file of RESTHeart applies, as it does there.
    """
    root = _build_shipped_lists() if file is None else _load_mapping(file, "CONFIG")
    if file is not None and any(name[:1] == "/" for name in _children(root)):
        hint = f"give it as an override: docgraph migrate restheart -o {file}"
        message = "this is an override file: its keys are paths"
        raise ConfigError([Problem(str(file), "/", message, hint)])
    for override in overrides:
        if override.suffix == ".conf":
            text = read_text(override, "--override")
            root = _apply_entries(root, text, Origin(str(override)), lines=True)
        else:
            root = _apply_mapping(root, _load_mapping(override, "--override"))
    if environment:
        root = _apply_entries(root, environment, Origin("RHO"), lines=False)
    detected = version or (_LATEST if file is None else _find_version(root))
    return RestheartConfig(
        root,
        detected or _OLD,
        is_shipped=file is None,
        is_guessed=detected is None,
        name="the default file of RESTHeart" if file is None else str(file),
    )


def _build_shipped_lists() -> ConfigNode:
    """Return the lists of the default file: overrides name their elements."""
    lists: dict[str, dict[str, Any]] = {}
    for (section, option), row in load_actions().items():
        if isinstance(row.default, list) and any(isinstance(item, dict) for item in row.default):
            lists.setdefault(section, {})[option] = row.default
    return from_plain(lists, Origin("the default file of RESTHeart"))


def _find_version(root: ConfigNode) -> int | None:
    """Return the version that the sections and options tell."""
    for version, markers in _MARKERS.items():
        for section, option in markers:
            node = _children(root).get(section)
            if node is not None and (not option or option in _children(node)):
                return version
    return None


def _children(node: ConfigNode) -> Mapping[str, ConfigNode]:
    return node.value if isinstance(node.value, Mapping) else {}


def _load_mapping(file: Path, option: str) -> ConfigNode:
    """Parse a YAML or JSON file; comments of `.jsonc` files become spaces."""
    text = read_text(file, option)
    if file.suffix == ".jsonc":
        text = _COMMENT.sub(_blank, text)
    parsed = parse_yaml(
        text,
        lambda line, column: Origin(str(file), line + 1, column + 1),
        resolve=resolve_old_scalar,
    )
    if parsed.node is None or parsed.problems:
        raise ConfigError(parsed.problems)
    if not isinstance(parsed.node.value, Mapping):
        raise ConfigError([Problem(str(file), "/", "not a mapping of sections")])
    return _merge_keys(parsed.node)


def _blank(match: re.Match[str]) -> str:
    """Return a text as it is, and a comment as spaces, so that positions stay."""
    return match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0])


def _merge_keys(node: ConfigNode) -> ConfigNode:
    """Apply the merge keys (`<<`) of YAML 1.1."""
    if isinstance(node.value, tuple):
        return node._replace(value=tuple(map(_merge_keys, node.value)))
    if not isinstance(node.value, Mapping):
        return node
    entries = {name: _merge_keys(child) for name, child in node.value.items()}
    merged: dict[str, ConfigNode] = {}
    if (bases := entries.pop("<<", None)) is not None:
        for base in reversed(bases.value if isinstance(bases.value, tuple) else (bases,)):
            merged |= base.value if isinstance(base.value, Mapping) else {}
    return node._replace(value={**merged, **entries})


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
        override, flaws = read_entry(entry, resolve_old_scalar)
        problems.extend(flaws)
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
    boolean = _OLD_BOOLEANS.get(text.lower())
    return resolve_scalar(text) if boolean is None else boolean
