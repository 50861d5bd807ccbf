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
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson

from docgraph import __version__
from docgraph.cli.apps.export import write_definition
from docgraph.codec import JsonMode, decode, to_json
from docgraph.exchange import DocgraphError, Document, StartupError

__all__ = ["APPS", "Directory"]

FORMAT: Final = 1
APPS: Final = "apps"
_MANIFEST: Final = "export.json"
_OWN: Final = (APPS, "users.json", "rules.json", "properties", "schemas", _MANIFEST)


class Directory:
    """The directory of an export."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_export(self) -> bool:
        """Whether somebody has exported into it."""
        return (self.path / _MANIFEST).is_file()

    @property
    def is_free(self) -> bool:
        """Whether there is nothing in it that would be lost or mixed up."""
        return not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir()))

    def begin(self) -> None:
        """Make the directory, for its owner alone, without what a former export has left."""
        for name in _OWN if self.is_export else ():
            path = self.path / name
            if path.is_dir():
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
        write_definition(document, self.path / APPS / quote(str(document["_id"]), safe=" "))

    def list_databases(self, kind: str) -> Iterator[str]:
        """The databases that there is a file of this kind for."""
        for file in sorted((self.path / kind).glob("*.json")):
            yield unquote(file.stem)

    def _write(self, name: str, content: Any) -> None:
        path = self.path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(file, "wb") as stream:
                stream.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise StartupError(f"{path}: {error.strerror}") from error

    def _read(self, name: str) -> Any:
        path = self.path / name
        try:
            return decode(path.read_bytes())
        except OSError as error:
            raise StartupError(f"{path}: {error.strerror}") from error
        except DocgraphError as error:
            raise StartupError(f"{path}: {error.message}") from error
