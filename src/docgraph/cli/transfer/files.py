"""Files of an export: in a form for people and version control, written and replaced as a whole.

    export.json             the format, and the docgraph version that wrote it
    apps/<id>/              schema.graphql, mappings.yml, app.yml
    apps.json               apps that such files cannot represent, for example without a schema
    users.json, rules.json  documents as they are stored, in extended JSON; also keys.json
    properties/<db>.json    metadata of a database and its collections: streams, aggregations, …
    schemas/<db>.json       the JSON schemas of a database

Passwords are hashes, and still not for others to read: only the owner can read the files.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson

from docgraph import __version__
from docgraph.cli.apps.definitions import read_paths
from docgraph.cli.apps.sources import (
    FoundDefinition,
    is_holdable,
    is_looked_into,
    read_directory,
    write_definition,
)
from docgraph.cli.terminal import make_printable
from docgraph.codec import JsonMode, decode, name_id, to_json
from docgraph.exchange import DocgraphError, Document, StartupError
from docgraph.graphql.definition.definition_diff import is_same

# An export with another format cannot be read; one with a later revision has more in it.
FORMAT: Final = 1
REVISION: Final = 0
MANIFEST: Final = "export.json"
APPS: Final = "apps"
ODD_APPS: Final = "apps.json"
_LONGEST_NAME: Final = 200  # bytes; file systems allow 255


class ExportWriter:
    """Writes into an empty directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._taken: set[str] = set()
        self._odd: list[Document] = []

    def write_documents(self, name: str, documents: Sequence[Document]) -> None:
        self._write(name, [to_json(document, JsonMode.EXTENDED) for document in documents])

    def write_app(self, document: Document) -> bool:
        """Write a definition into files; return False if they cannot represent it."""
        directory = self.path / APPS / self._name_app(str(document["_id"]))
        if is_holdable(document):
            (self.path / APPS).mkdir(exist_ok=True, mode=0o700)
            directory.mkdir(mode=0o700)
            for file in write_definition(document, directory):
                file.chmod(0o600)
            read_again = read_directory(directory)
            if read_again.flaw is None and is_same(read_again.document, document):
                return True
            shutil.rmtree(directory)
        self._odd.append(document)
        return False

    def finish(self) -> None:
        """Mark the export as complete, with the version that wrote it."""
        if self._odd:
            self.write_documents(ODD_APPS, self._odd)
        manifest = {"format": FORMAT, "revision": REVISION, "docgraph": __version__}
        self._write(MANIFEST, manifest)

    def _name_app(self, id: str) -> str:
        """Return a unique name that every file system accepts and an import reads."""
        name = quote(id, safe=" ") or "%"
        if not is_looked_into(name):
            name = f"%{ord(name[0]):02X}{name[1:]}"
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}~{sha256(id.encode()).hexdigest()[:16]}"
        free, number = name, 1
        while free.casefold() in self._taken:
            number += 1
            free = f"{name}~{number}"
        self._taken.add(free.casefold())
        return free

    def _write(self, name: str, content: Any) -> None:
        path = self.path / name
        if path.parent != self.path:
            (self.path / path.parent.name).mkdir(exist_ok=True, mode=0o700)
        # Never write to a file or a link that another process has put there meanwhile.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "wb") as stream:
            stream.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


_BY_DATABASE: Final = ("properties", "schemas")
# The file that marks an export as complete comes first.
_OWN: Final = (MANIFEST, APPS, ODD_APPS, "users.json", "rules.json", "keys.json", *_BY_DATABASE)
_KNOWN: Final = frozenset({"format", "revision", "docgraph"})


class Directory:
    """The directory of an export."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_export(self) -> bool:
        with _explaining_errors(self.path):
            former = self.path / FORMER
            if former.exists():
                raise StartupError(
                    f"{self.path}: an export was interrupted while it replaced this one",
                    hint=f"its files are in {former}: move them back, or remove that directory",
                )
            return (self.path / MANIFEST).is_file()

    @property
    def is_free(self) -> bool:
        """Whether an export can be written to it without losing or mixing up files."""
        with _explaining_errors(self.path):
            if not self.path.exists():
                return True
            return self.path.is_dir() and all(path.name == NEW for path in self.path.iterdir())

    @contextmanager
    def rewrite(self) -> Iterator[ExportWriter]:
        """Write an export that replaces the previous one when it is complete."""
        with _explaining_errors(self.path), replacing(self.path, _OWN) as place:
            writer = ExportWriter(place)
            yield writer
            writer.finish()

    def check(self) -> None:
        """Raise `StartupError` unless this is an export that we can read."""
        if not self.is_export:
            raise StartupError(
                f"{self.path} is no export: there is no {MANIFEST} in it",
                hint="`docgraph export DIR` makes one",
            )
        manifest = self._read_manifest()
        version = manifest.get("format")
        if not _is_number(version) or version != FORMAT:
            writer = _name_writer(manifest)
            raise StartupError(
                f"{self.path} was written by {writer}, in a format that is not known here",
                hint=f"format {FORMAT} is: import it with {writer} or a later version, or export "
                "again with this one",
            )

    def find_unknown(self) -> Iterator[str]:
        """Yield the files that an import ignores: of a newer docgraph, or not of an export."""
        manifest = self._read_manifest()
        if _is_number(manifest.get("revision")) and manifest["revision"] > REVISION:
            yield f"{self.path} was written by {_name_writer(manifest)}, which knows more"
        for name in sorted(manifest.keys() - _KNOWN):
            yield f"{self.path / MANIFEST}: {name} is not known here"
        with _explaining_errors(self.path):
            unknown = [path for path in self.path.iterdir() if path.name not in _OWN]
            for kind in filter(lambda kind: (self.path / kind).is_dir(), _BY_DATABASE):
                unknown += [path for path in (self.path / kind).iterdir() if path.suffix != ".json"]
        for path in sorted(unknown):
            if not path.name.startswith("."):
                yield f"{path}: not imported: it is not known here"

    def read_documents(self, name: str) -> list[Document]:
        """Return documents as they were stored; none if there is no such file."""
        with _explaining_errors(self.path / name):
            if not (self.path / name).is_file():
                return []
        documents = self._read(name)
        if not isinstance(documents, list):
            raise StartupError(f"{self.path / name} is no list of documents")
        for place, document in enumerate(documents):
            if not isinstance(document, dict) or "_id" not in document:
                raise StartupError(f"{self.path / name}: [{place}] is no document with an _id")
        return documents

    def read_apps(self) -> list[FoundDefinition]:
        """Return every definition, or why it cannot be read."""
        apps, odd = self.path / APPS, self.path / ODD_APPS
        with _explaining_errors(apps):
            has_files = apps.is_dir() and any(apps.iterdir())
        definitions = read_paths([apps]) if has_files else []
        for document in self.read_documents(ODD_APPS):
            definitions.append(
                FoundDefinition(f"{odd}, {make_printable(name_id(document['_id']))}", document)
            )
        return definitions

    def list_databases(self, kind: str) -> Iterator[str]:
        with _explaining_errors(self.path / kind):
            files = sorted((self.path / kind).glob("*.json"))
        for file in files:
            yield unquote(file.stem)

    def _read_manifest(self) -> Document:
        manifest = self._read(MANIFEST)
        return manifest if isinstance(manifest, dict) else {}

    def _read(self, name: str) -> Any:
        path = self.path / name
        try:
            with _explaining_errors(path):
                return decode(path.read_bytes())
        except DocgraphError as error:
            raise StartupError(f"{path}: {error.message}") from error


def _name_writer(manifest: Document) -> str:
    version = manifest.get("docgraph")
    return f"docgraph {make_printable(version)}" if isinstance(version, str) else "something else"


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@contextmanager
def _explaining_errors(path: Path) -> Iterator[None]:
    """Report file system errors as one clear message."""
    try:
        yield
    except OSError as error:
        raise StartupError(f"{error.filename or path}: {error.strerror or error}") from error


NEW: Final = ".export-new"
FORMER: Final = ".export-former"
_OWNER_ONLY: Final = 0o700
# Errors of file systems that cannot sync directories, or of directories of other users.
_UNABLE: Final = frozenset({errno.EACCES, errno.EINVAL, errno.ENOTSUP})


@contextmanager
def replacing(directory: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield where to write the entries with these `names`; rename them if all succeeded.

    The first of the names marks an export as complete.

    It is written into a directory inside the target, which may be a repository or a mount with
    other files, and its entries are then renamed into place: a rename can be undone. It is synced
    to disk before, so that one of the two survives a power failure.
    """
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
    new = directory / NEW
    try:
        _remove(new)  # of a killed process
        new.mkdir(mode=_OWNER_ONLY)
        yield new
        _keep_all(new)
        _swap(directory, names)
        _keep(directory)
        if is_new:
            _keep(directory.parent)
    except BaseException:
        _remove(new)
        if is_new:
            with suppress(OSError):  # another process has put something there
                directory.rmdir()
        raise
    _remove(new)


def _keep_all(directory: Path) -> None:
    """Wait until the directory and everything in it is synced to disk."""
    for place, _, names in os.walk(directory, topdown=False):
        for name in names:
            _keep(Path(place, name))
        _keep(Path(place))


def _keep(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise


def _swap(directory: Path, names: Sequence[str]) -> None:
    new, former = directory / NEW, directory / FORMER
    former.mkdir(mode=_OWNER_ONLY)
    moves = [(directory / name, former / name) for name in names]
    moves += [(new / name, directory / name) for name in reversed(names)]
    moves.append((former, new / FORMER))  # from here on it is only leftover
    tried: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            if os.path.lexists(source):
                tried.append((source, target))
                os.rename(source, target)
    except BaseException:
        for source, target in reversed(tried):
            if not os.path.lexists(source):
                os.rename(target, source)
        former.rmdir()
        raise


def _remove(path: Path) -> None:
    """Remove a file, directory or link, if it exists; of a link, not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
