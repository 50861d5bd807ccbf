"""Configuration sources: defaults < file < overrides file < environment variable < `--set`.

`load` reads all of them and never raises: problems of a source are stored in the tree, so that
`decode` can report them together with everything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from docgraph.config.config_node import BUILT_IN, EMPTY, ConfigNode, Origin, from_plain, merge
from docgraph.config.config_tree import (
    ConfigTree,
    Override,
    OverrideText,
    PathError,
    apply_override,
    parse_entries,
    read_entry,
)
from docgraph.config.nearest import find_nearest
from docgraph.config.options import find_option
from docgraph.config.parse import MAX_TEXT, ResolveScalar, parse_yaml, resolve_scalar
from docgraph.config.section import Section
from docgraph.exchange.errors import ConfigError, Problem

DEFAULT_FILE: Final = "docgraph.yml"
PREFIX: Final = "DOCGRAPH_"
VARIABLES: Final = ("DOCGRAPH_CONFIG", "DOCGRAPH_OVERRIDES", "DOCGRAPH_MONGOD", "DOCGRAPH_NATIVE")

# Kubernetes sets these in every pod if a service is called "docgraph".
_CLUSTER_NAMES: Final = re.compile(r"DOCGRAPH_(SERVICE_(HOST|PORT)|PORT)(_\w+)?")
_NO_SECTIONS: Final[Mapping[str, type[Section]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """The options of the command line, the environment and the working directory."""

    file: Path | None = None
    overrides_file: Path | None = None
    settings: tuple[str, ...] = ()
    settings_origin: str = "--set"  # how errors name them
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: Path = field(default_factory=Path.cwd)


def load(
    sources: ConfigSources, sections: Mapping[str, type[Section]] = _NO_SECTIONS
) -> ConfigTree:
    """Read and merge all sources; a path into a list that is not set changes its default."""
    return _Loading(sources, sections).run()


@dataclass(slots=True)
class _Loading:
    sources: ConfigSources
    sections: Mapping[str, type[Section]]
    root: ConfigNode = EMPTY
    file: Path | None = None
    complete: bool = True
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def run(self) -> ConfigTree:
        self._check_variables()
        self._read_file()
        self._read_overrides_file()
        self._read_variable()
        self._read_settings()
        return ConfigTree(
            root=self.root,
            file=self.file,
            directory=self.sources.directory,
            problems=tuple(self.problems),
            warnings=tuple(self.warnings),
            complete=self.complete,
        )

    def _check_variables(self) -> None:
        for name in sorted(self.sources.environ):
            if not name.startswith(PREFIX) or name in VARIABLES or _CLUSTER_NAMES.fullmatch(name):
                continue
            ends = {known.removeprefix(PREFIX): known for known in VARIABLES}
            nearest = find_nearest(name.removeprefix(PREFIX), ends)
            if nearest:
                self._report(Origin("environment"), name, "an unknown variable", ends[nearest])
                continue
            self.warnings.append(
                Problem(
                    "environment", name, "an unknown variable", f"known: {', '.join(VARIABLES)}"
                )
            )

    def _read_file(self) -> None:
        sources = self.sources
        named = sources.file
        if named is None and sources.environ.get("DOCGRAPH_CONFIG"):
            named = Path(sources.environ["DOCGRAPH_CONFIG"])
        file = named or Path(DEFAULT_FILE)
        if named is None and not (sources.directory / file).exists():
            return
        self.file = sources.directory / file
        if (text := self._read_text(file)) is not None:
            self._merge_mapping(text, self._locate_in(file))

    def _read_overrides_file(self) -> None:
        file = self.sources.overrides_file
        if file is None or (text := self._read_text(file)) is None:
            return
        if file.suffix == ".conf":
            self._apply_entries(text, self._locate_in(file), lines=True)
        else:
            self._merge_mapping(text, self._locate_in(file))

    def _read_variable(self) -> None:
        if text := self.sources.environ.get("DOCGRAPH_OVERRIDES"):
            origin = Origin("DOCGRAPH_OVERRIDES", directory=self.sources.directory)
            self._apply_entries(text, lambda line, column: origin, lines=False)

    def _read_settings(self) -> None:
        origin = Origin(self.sources.settings_origin, directory=self.sources.directory)
        for setting in self.sources.settings:
            path, sign, value = setting.partition("=")
            if not sign or not path.strip().startswith("/"):
                self._report(
                    origin, "/", "not '<path>=<value>'", hint="write '--set /section/option=value'"
                )
                continue
            self._apply_entry(OverrideText(path.strip(), value.strip(), origin))

    def _read_text(self, file: Path) -> str | None:
        origin = Origin(str(file))
        try:
            with (self.sources.directory / file).open("rb") as stream:
                content = stream.read(MAX_TEXT + 1)
            return content.decode("utf-8-sig")
        except FileNotFoundError:
            message = "the file does not exist"
        except UnicodeDecodeError as error:
            message = f"not UTF-8 at byte {error.start}"
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "failed"
            message = f"cannot be read: {reason.lower()}"
        self.complete = False
        self._report(origin, "/", message)
        return None

    def _locate_in(self, file: Path) -> Callable[[int, int], Origin]:
        directory = (self.sources.directory / file).parent
        return lambda line, column: Origin(str(file), line + 1, column + 1, directory)

    def _merge_mapping(self, text: str, locate: Callable[[int, int], Origin]) -> None:
        parsed = parse_yaml(text, locate)
        self.problems.extend(parsed.problems)
        if parsed.node is None:
            self.complete = False
            return
        if parsed.node.value is None:
            return
        if not isinstance(parsed.node.value, Mapping):
            self._report(
                parsed.node.origin, "/", "not a mapping of sections", hint="write 'section:' first"
            )
            return
        nested = {name: node for name, node in parsed.node.value.items() if name[:1] != "/"}
        self.root = merge(self.root, ConfigNode(nested, parsed.node.origin))
        for name, node in parsed.node.value.items():
            if name[:1] == "/":
                self._apply(Override(name, node), node.place)

    def _apply_entries(
        self, text: str, locate: Callable[[int, int], Origin], *, lines: bool
    ) -> None:
        entries, problems = parse_entries(text, locate, lines=lines)
        self.problems.extend(problems)
        for entry in entries:
            self._apply_entry(entry)

    def _apply_entry(self, entry: OverrideText) -> None:
        override, problems = read_entry(entry)
        self.problems.extend(problems)
        if override is not None:
            self._apply(override, entry.origin)

    def _apply(self, override: Override, origin: Origin) -> None:
        try:
            self.root = apply_override(self.root, override, self._find_default_list)
        except PathError as error:
            self._report(origin, override.path, str(error))

    def _report(
        self, origin: Origin, path: str, message: str, nearest: str = "", hint: str | None = None
    ) -> None:
        hint = f"did you mean '{nearest}'?" if nearest else hint
        self.problems.append(Problem(str(origin), path, message, hint))

    def _find_default_list(self, steps: tuple[str | int, ...]) -> ConfigNode | None:
        option = find_option(self.sections, steps)
        if option is None or not isinstance(option.default, tuple):
            return None
        return from_plain(msgspec.to_builtins(option.default), BUILT_IN)


CONFIGURATION: Final = "configuration"  # the origin of problems that components report


@contextmanager
def locating(tree: ConfigTree) -> Iterator[None]:
    """Add file and line to a `ConfigError` from this block, where they are missing.

    A component knows its own section, but not where it was written; the caller with the tree does.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError([locate(problem, tree) for problem in error.problems]) from None


def locate(problem: Problem, tree: ConfigTree) -> Problem:
    """Return the problem with file and line, where they are missing."""
    if problem.origin != CONFIGURATION:
        return problem
    return replace(problem, origin=str(tree.find_origin(problem.path)))


def read_text(file: Path, option: str) -> str:
    """Return the text of a file; `option` is the one that names it, for errors about all of it."""
    try:
        with file.open(encoding="utf-8") as source:
            return source.read(MAX_TEXT + 1)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        message = f"the file {file} cannot be read: {reason}"
        raise ConfigError([Problem(CONFIGURATION, option, message)]) from error


def load_file(file: Path, option: str, resolve: ResolveScalar = resolve_scalar) -> ConfigNode:
    parsed = parse_yaml(
        read_text(file, option),
        lambda line, column: Origin(str(file), line + 1, column + 1),
        resolve=resolve,
    )
    if parsed.node is None or parsed.problems:
        raise ConfigError(parsed.problems)
    return parsed.node


def load_list(file: Path, option: str, key: str) -> ConfigNode:
    """Parse a YAML file that an option names, and return the list below its only key."""
    root = load_file(file, option)
    keys = root.value if isinstance(root.value, Mapping) else {}
    problems = [
        Problem(str(child.place), f"/{name}", "unknown key", f"the file has one key, '{key}'")
        for name, child in keys.items()
        if name != key
    ]
    if key not in keys:
        hint = f"write '{key}:' and a list of {key} below it"
        problems.append(Problem(str(file), f"/{key}", f"there is no list '{key}'", hint))
    if problems:
        raise ConfigError(problems)
    entries: ConfigNode = keys[key]  # mypy takes what a recursive tuple holds for Any
    return entries
