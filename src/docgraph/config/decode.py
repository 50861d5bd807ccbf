"""Configuration decoding: sections as typed values, or one error with all problems."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from docgraph.config.config_node import BUILT_IN, ConfigNode, Origin
from docgraph.config.config_tree import ConfigTree
from docgraph.config.nearest import suggest
from docgraph.config.options import options_of, walk_options
from docgraph.config.section import Section, View
from docgraph.config.validate_values import Checker
from docgraph.exchange.errors import ConfigError, Problem

S = TypeVar("S", bound=Section)
_SWITCH = "enabled"
_PLACE: Final = re.compile(r"(?P<source>.*):(?P<line>\d+):(?P<column>\d+)")
_LONGEST: Final = 300  # characters of a text in a problem


@dataclass(frozen=True, slots=True)
class Decoded:
    """The whole configuration: every section by name, and the warnings."""

    sections: Mapping[str, Section]
    warnings: tuple[Problem, ...]
    directory: Path  # of the configuration file, else the working directory

    def get(self, section: type[S]) -> S:
        for value in self.sections.values():
            if type(value) is section:
                return value
        raise KeyError(section.__name__)


def decode(tree: ConfigTree, sections: Mapping[str, type[Section]]) -> Decoded:
    """Decode every section; raise one `ConfigError` with all problems of all sources."""
    decoding = _Decoding(tree, sections)
    decoding.check_names()
    for name, section in sections.items():
        decoding.decode_section(name, section)
    view = View(tree, decoding.done, sections)
    checked = [
        section
        for name, section in decoding.done.items()
        if section.section_name in (name, "")  # a plugin may reuse the struct of another section
    ]
    # Checks could report options as missing that a file sets after the point where reading failed.
    conflicts = [
        problem
        for section in (checked if tree.complete else ())
        for problem in section.find_conflicts(view)
    ]
    problems = [*tree.problems, *decoding.problems, *conflicts]
    if problems:
        raise ConfigError(arrange(problems))
    advice = [problem for section in checked for problem in section.give_advice(view)]
    asleep = _find_asleep(view)
    warnings = (*tree.warnings, *decoding.warnings, *advice, *asleep)
    return Decoded(decoding.done, warnings, _directory(tree))


def _find_asleep(view: View) -> Iterator[Problem]:
    """Warn about configured sections that are not enabled, unless by `enabled: false`."""
    for name, section in view.sections.items():
        options = options_of(type(section))
        switch = options.get(_SWITCH)
        if switch is None or switch.default is not False or view.tree.is_set(f"/{name}/{_SWITCH}"):
            continue
        given = [path for option in options if view.tree.is_set(path := f"/{name}/{option}")]
        if given:
            hint = f"set /{name}/{_SWITCH} to true, or to false if that is meant"
            yield view.blame(given[0], f"'{name}' is off, as nothing turns it on", hint)


def peek(tree: ConfigTree, section: type[S]) -> S:
    """Decode one section before the others are known; invalid options count as not set."""
    name = section.section_name
    values = _Decoding(tree, {name: section}).read_section(name, section)
    try:
        return msgspec.convert(values, section)
    except msgspec.ValidationError:
        return section()  # `decode` will report it


def _directory(tree: ConfigTree) -> Path:
    return tree.file.parent if tree.file else tree.directory


@dataclass(slots=True)
class _Decoding:
    tree: ConfigTree
    sections: Mapping[str, type[Section]]
    done: dict[str, Section] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def check_names(self) -> None:
        children = self.tree.root.value
        if not isinstance(children, Mapping):
            return
        for name, node in children.items():
            if name not in self.sections:
                hint = self._find_home(name) or suggest(name, self.sections)
                self.problems.append(Problem(str(node.place), f"/{name}", "unknown section", hint))

    def decode_section(self, name: str, section: type[Section]) -> None:
        """Decode one section into `done`; an invalid one is reported and left out."""
        before = len(self.problems)
        values = self.read_section(name, section)
        if len(self.problems) > before:
            return
        try:
            self.done[name] = msgspec.convert(values, section)
        except msgspec.ValidationError as error:
            place, path = str(self.tree.find_origin(f"/{name}")), f"/{name}"
            self.problems.append(Problem(place, path, f"does not fit: {str(error).lower()}"))

    def read_section(self, name: str, section: type[Section]) -> dict[str, Any]:
        """Return the valid options of a section as plain values; report the others."""
        checker = Checker(self._resolve_path, self._explain)
        node = self.tree.section(name) or ConfigNode(None, BUILT_IN)
        values = checker.check_struct(node, section, f"/{name}")
        self.problems.extend(checker.problems)
        self.warnings.extend(checker.warnings)
        given = values if isinstance(values, dict) else {}
        return {**self._default_paths(section), **given}

    def _default_paths(self, section: type[Section]) -> dict[str, str]:
        origin = Origin("", directory=self.tree.directory)
        return {
            name: self._resolve_path(option.default, origin, option.extra)
            for name, option in options_of(section).items()
            if "path" in option.extra and isinstance(option.default, str)
        }

    def _resolve_path(self, text: str, origin: Origin, extra: Mapping[str, Any]) -> str:
        path = Path(os.path.expanduser(text))  # unlike Path.expanduser, never raises
        base = origin.directory or self.tree.directory
        if extra.get("path") == "plugins":
            base = _directory(self.tree)
        elif extra.get("path") == "configuration":
            base = self.tree.file.parent if self.tree.file else self._plugins_directory()
        return str(base / path)

    def _plugins_directory(self) -> Path:
        """Return the value of the one option that is a `PluginsDirectory`."""
        for name, section in self.sections.items():
            for option in options_of(section).values():
                if option.extra.get("path") == "plugins":
                    alone = _Decoding(self.tree, {name: section})
                    return Path(alone.read_section(name, section)[option.name])
        return self.tree.directory

    def _explain(self, name: str, path: str, struct: type[msgspec.Struct]) -> str | None:
        return suggest(name, options_of(struct)) or self._find_home(name)

    def _find_home(self, name: str) -> str | None:
        """Return where an option of this name belongs, for a misplaced one."""
        homes = [
            path
            for section_name, section in self.sections.items()
            for path, option in walk_options(section, f"/{section_name}")
            if option.name == name and name != "enabled"
        ]
        return f"it belongs at {homes[0]}" if homes else None


def arrange(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by source, and within a file by line; drop duplicates, escape controls."""
    cleaned = list(dict.fromkeys(_clean(problem) for problem in problems))
    sources: dict[str, int] = {}
    for problem in cleaned:
        sources.setdefault(_locate(problem)[0], len(sources))
    return sorted(cleaned, key=lambda p: (sources[_locate(p)[0]], *_locate(p)[1:]))


def _locate(problem: Problem) -> tuple[str, int, int]:
    match = _PLACE.fullmatch(problem.origin)
    return (
        (match["source"], int(match["line"]), int(match["column"]))
        if match
        else (problem.origin, 0, 0)
    )


def _clean(problem: Problem) -> Problem:
    return replace(
        problem,
        path=_escape(problem.path),
        message=_escape(problem.message),
        hint=_escape(problem.hint) if problem.hint else None,
    )


def _escape(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
