"""Definitions on disk: one file each, or a directory with the parts in separate files.

`shop/schema.graphql`, `shop/mappings.yml` and `shop/app.yml` are one definition; so is one JSON or
YAML file that has them all. Directories are searched recursively. Files in them that are no
definitions are reported, so that a skipped app is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from docgraph.codec import JsonMode, decode, to_json
from docgraph.config.config_node import Origin, to_plain
from docgraph.config.parse import DOCUMENT_BOUNDS, parse_yaml
from docgraph.config.render import render_block
from docgraph.exchange import DocgraphError, Document, StartupError
from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.inputs import build_bson

SCHEMA_FILE = "schema.graphql"
APP, MAPPINGS = "app", "mappings"
_YAML = (".yml", ".yaml")
SUFFIXES = (*_YAML, ".json")
_MAX_SIZE = 16 * 1024 * 1024  # of a MongoDB document
_FOREIGN_DIRECTORIES = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class FoundDefinition:
    """A definition by the name of its file or directory, or why it cannot be read."""

    name: str
    document: Document = field(default_factory=dict)
    flaw: Finding | None = None


@dataclass(slots=True)
class DefinitionSources:
    """The definitions found; `skipped` are files and directories, each with the reason."""

    definitions: list[FoundDefinition] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


class UnreadableError(Exception):
    """A file that cannot be read; the message says why."""


def find_definitions(paths: Sequence[Path]) -> DefinitionSources:
    """Return the definitions of these files and directories, each of them once."""
    finder = _Finder()
    for path in paths:
        finder.visit(path)
    return finder.sources


def is_looked_into(name: str) -> bool:
    """Return whether a directory with that name may contain definitions."""
    return not name.startswith(".") and name not in _FOREIGN_DIRECTORIES


class _Finder:
    """Walks through files and directories."""

    def __init__(self) -> None:
        self.sources = DefinitionSources()
        self._seen: set[Path] = set()

    def visit(self, path: Path) -> None:
        """Visit a path that the user named: a file has to be a definition."""
        if path.is_dir():
            self._walk(path)
        elif _is_part(path) and (path.parent / SCHEMA_FILE).is_file():
            self._add_directory(path.parent)
        elif self._is_new(path):
            self.sources.definitions.append(_read_file(path))

    def _walk(self, directory: Path) -> None:
        try:
            entries = sorted(directory.iterdir())
        except OSError as error:
            self._skip(directory, f"cannot be read: {error.strerror}")
            return
        is_definition = (directory / SCHEMA_FILE).is_file()
        if is_definition:
            self._add_directory(directory)
        for entry in entries:
            if entry.is_dir():
                self._enter(entry)
            elif not (is_definition and _is_part(entry)):
                self._inspect(entry)

    def _enter(self, directory: Path) -> None:
        if not is_looked_into(directory.name):
            self._skip(directory, "not looked into")
        elif directory.is_symlink():
            self._skip(directory, "links to directories are not followed")
        else:
            self._walk(directory)

    def _inspect(self, file: Path) -> None:
        """Inspect a file of a directory, which may be no definition at all."""
        if file.suffix not in SUFFIXES:
            self._skip(file, "neither JSON nor YAML")
        elif file.stem == MAPPINGS:
            self._skip(file, f"there is no {SCHEMA_FILE} beside it")
        elif not file.is_file():
            self._skip(file, "not a file")
        elif file.stat().st_size > _MAX_SIZE:
            self._skip(file, "larger than a definition can be")
        elif self._is_new(file):
            content = _read_file(file)
            if content.flaw is None and not {"schema", "mappings"} & content.document.keys():
                self._skip(file, "has neither schema nor mappings")
            elif content.flaw == _NO_OBJECT:
                self._skip(file, _NO_OBJECT.what)
            else:
                self.sources.definitions.append(content)

    def _add_directory(self, directory: Path) -> None:
        if self._is_new(directory):
            self.sources.definitions.append(read_directory(directory))

    def _is_new(self, path: Path) -> bool:
        resolved = path.resolve()
        is_new = resolved not in self._seen
        self._seen.add(resolved)
        return is_new

    def _skip(self, path: Path, reason: str) -> None:
        self.sources.skipped.append((path, reason))


_NO_OBJECT = Finding("", "a definition is an object")


def _is_part(file: Path) -> bool:
    is_named = file.suffix in SUFFIXES and file.stem in (APP, MAPPINGS)
    return is_named or file.name == SCHEMA_FILE


def _read_file(file: Path) -> FoundDefinition:
    try:
        content = read_content(file)
    except UnreadableError as error:
        return FoundDefinition(str(file), flaw=Finding("", str(error)))
    if not isinstance(content, dict):
        return FoundDefinition(str(file), flaw=_NO_OBJECT)
    return FoundDefinition(str(file), content)


def read_directory(directory: Path) -> FoundDefinition:
    """Read the definition whose parts are in separate files."""
    name = str(directory)
    try:
        schema = _read_text(directory / SCHEMA_FILE)
        parts = {part: _read_part(directory, part) for part in (APP, MAPPINGS)}
    except UnreadableError as error:
        return FoundDefinition(name, flaw=Finding("", str(error)))
    document: Document = {"_id": directory.resolve().name, **(parts[APP] or {})}
    written = {"schema": schema} | ({} if parts[MAPPINGS] is None else {MAPPINGS: parts[MAPPINGS]})
    for key in written:
        if key in document:
            return FoundDefinition(
                name, flaw=Finding(key, f"is in {APP} and in a file of its own: remove one of them")
            )
    return FoundDefinition(name, {**document, **written})


def _read_part(directory: Path, part: str) -> Document | None:
    files = [file for suffix in SUFFIXES if (file := directory / f"{part}{suffix}").is_file()]
    if not files:
        return None
    if len(files) > 1:
        raise UnreadableError(f"{files[0].name} and {files[1].name}: keep one of them")
    try:
        content = read_content(files[0])
    except UnreadableError as error:
        is_named = files[0].name in str(error)
        raise UnreadableError(str(error) if is_named else f"{files[0].name}: {error}") from None
    if not isinstance(content, dict):
        raise UnreadableError(f"{files[0].name} must be an object")
    return content


def read_content(file: Path) -> Any:
    """Return the content of the file, with extended JSON in it as BSON values."""
    text = _read_text(file)
    if file.suffix not in _YAML:
        try:
            return decode(text)
        except DocgraphError as error:
            raise UnreadableError(f"not valid JSON: {error.message}") from None
    name = file.name
    parsed = parse_yaml(
        text, lambda line, column: Origin(name, line + 1, column + 1), bounds=DOCUMENT_BOUNDS
    )
    if parsed.node is None or parsed.problems:
        raise UnreadableError("; ".join(_describe(parsed.problems)))
    try:
        return build_bson(to_plain(parsed.node))
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def require_content(file: Path) -> Any:
    """Return the content of the file; raise `StartupError` with its name if it is unreadable."""
    try:
        return read_content(file)
    except UnreadableError as error:
        raise StartupError(f"{file}: {error}") from error


def _describe(problems: Sequence[Any]) -> Iterator[str]:
    return (f"not valid YAML: {problem}" for problem in problems)


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise UnreadableError(f"{file.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableError(f"{file.name} is not UTF-8") from None


def is_holdable(document: Document) -> bool:
    """Return whether the document has the parts of a definition."""
    schema, mappings = document.get("schema"), document.get(MAPPINGS)
    return isinstance(schema, str) and isinstance(mappings, dict)


def write_definition(document: Document, directory: Path) -> list[Path]:
    """Write the parts of a definition into a directory; existing files keep their format."""
    if not is_holdable(document):
        raise StartupError(
            f"the stored definition {document.get('_id')!s} is not one that files can hold",
            hint="`docgraph apps show` without --files prints it as it is",
        )
    rest = {key: value for key, value in document.items() if key not in ("schema", MAPPINGS)}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / SCHEMA_FILE).write_bytes(document["schema"].encode())
        written = [
            _write_part(directory, part, content)
            for part, content in ((MAPPINGS, document[MAPPINGS]), (APP, rest))
        ]
    except OSError as error:
        raise StartupError(f"{error.filename or directory}: {error.strerror}") from error
    return [directory / SCHEMA_FILE, *written]


def find_part(directory: Path, part: str) -> Path:
    """Return the existing file of a part, or the one to write."""
    files = [directory / f"{part}{suffix}" for suffix in SUFFIXES]
    return next((file for file in files if file.exists()), files[0])


def _write_part(directory: Path, part: str, content: Document) -> Path:
    file = find_part(directory, part)
    plain = to_json(content, JsonMode.STANDARD)
    if file.suffix == ".json":
        file.write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2) + b"\n")
    else:
        file.write_bytes(render_block(plain).encode())
    return file
