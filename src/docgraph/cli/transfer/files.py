"""The files of an export, as people and version control see them.

    export.json             the format, and which docgraph wrote it
    apps/<id>/              schema.graphql, mappings.yml, app.yml
    users.json, rules.json  documents as they are stored, in extended JSON
    properties/<db>.json    what is said of a database and its collections: streams, aggregations, …
    schemas/<db>.json       the JSON schemas of a database

Passwords are hashes, and still nothing for others to read: the files are the owner's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson

from docgraph import __version__
from docgraph.cli.apps.export import write_definition
from docgraph.cli.apps.sources import is_looked_into
from docgraph.codec import JsonMode, decode, to_json
from docgraph.exchange import DocgraphError, Document, StartupError

__all__ = ["APPS", "Directory"]

FORMAT: Final = 1
APPS: Final = "apps"
_MANIFEST: Final = "export.json"
# What says that an export is whole goes first.
_OWN: Final = (_MANIFEST, APPS, "users.json", "rules.json", "properties", "schemas")
_LONGEST_NAME: Final = 200  # bytes; file systems have room for 255


class Directory:
    """The directory of an export."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._taken: set[str] = set()

    @property
    def is_export(self) -> bool:
        """Whether somebody has exported into it."""
        with _telling(self.path):
            return (self.path / _MANIFEST).is_file()

    @property
    def is_free(self) -> bool:
        """Whether there is nothing in it that would be lost or mixed up."""
        with _telling(self.path):
            return not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir()))

    def begin(self) -> None:
        """Make the directory, for its owner alone, without what a former export has left."""
        with _telling(self.path):
            for name in _OWN if self.is_export else ():
                path = self.path / name
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def finish(self) -> None:
        """Say that the export is whole, and what wrote it."""
        self._write(_MANIFEST, {"format": FORMAT, "docgraph": __version__})

    def check(self) -> None:
        """Raise `StartupError` unless this is an export that we can read."""
        if not self.is_export:
            raise StartupError(
                f"{self.path} is no export: there is no {_MANIFEST} in it",
                hint="`docgraph export DIR` makes one",
            )
        said = self._read(_MANIFEST)
        found = said.get("format") if isinstance(said, dict) else None
        if not isinstance(found, int) or found > FORMAT:
            version = said.get("docgraph") if isinstance(said, dict) else None
            raise StartupError(
                f"{self.path} was written by docgraph {version}, in a format not known here",
                hint="use a docgraph that is at least as new",
            )

    def write_documents(self, name: str, documents: Sequence[Document]) -> None:
        """Documents as they are stored."""
        self._write(name, [to_json(one, JsonMode.EXTENDED) for one in documents])

    def read_documents(self, name: str) -> list[Document]:
        """The same; none where there is no such file."""
        if not (self.path / name).is_file():
            return []
        found = self._read(name)
        if not isinstance(found, list) or not all(
            isinstance(one, dict) and "_id" in one for one in found
        ):
            raise StartupError(f"{self.path / name} is no list of documents with an _id")
        return found

    def write_app(self, document: Document) -> None:
        """A definition in files of its own."""
        self._make_part(APPS)
        write_definition(document, self.path / APPS / self._name_app(str(document["_id"])))

    def _name_app(self, id: str) -> str:
        """A name of its own, which every file system takes and an import looks into."""
        name = quote(id, safe=" ")
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

    def _make_part(self, name: str) -> None:
        with _telling(self.path / name):
            (self.path / name).mkdir(exist_ok=True, mode=0o700)

    def list_databases(self, kind: str) -> Iterator[str]:
        """The databases that there is a file of this kind for."""
        for file in sorted((self.path / kind).glob("*.json")):
            yield unquote(file.stem)

    def _write(self, name: str, content: Any) -> None:
        path = self.path / name
        if path.parent != self.path:
            self._make_part(path.parent.name)
        with _telling(path):
            # A file or a link that somebody has put there meanwhile is not written to.
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "wb") as stream:
                stream.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")

    def _read(self, name: str) -> Any:
        path = self.path / name
        try:
            with _telling(path):
                return decode(path.read_bytes())
        except DocgraphError as error:
            raise StartupError(f"{path}: {error.message}") from error


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """What the file system refuses is one clear message."""
    try:
        yield
    except OSError as error:
        raise StartupError(f"{error.filename or path}: {error.strerror or error}") from error
