"""Files of an export, in a form for people and version control.

    export.json             the format, and the docgraph version that wrote it
    apps/<id>/              schema.graphql, mappings.yml, app.yml
    apps.json               apps that such files cannot represent, for example without a schema
    users.json, rules.json  documents as they are stored, in extended JSON
    properties/<db>.json    metadata of a database and its collections: streams, aggregations, …
    schemas/<db>.json       the JSON schemas of a database

Passwords are hashes, and still not for others to read: only the owner can read the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from docgraph.cli.apps.definitions import read_paths
from docgraph.cli.apps.sources import FoundDefinition
from docgraph.cli.terminal import make_printable
from docgraph.cli.transfer.swap import FORMER, NEW, replacing
from docgraph.cli.transfer.writing import APPS, FORMAT, MANIFEST, ODD_APPS, REVISION, ExportWriter
from docgraph.codec import decode, name_id
from docgraph.exchange import DocgraphError, Document, StartupError

_BY_DATABASE: Final = ("properties", "schemas")
# The file that marks an export as complete comes first.
_OWN: Final = (MANIFEST, APPS, ODD_APPS, "users.json", "rules.json", *_BY_DATABASE)
_KNOWN: Final = frozenset({"format", "revision", "docgraph"})


class Directory:
    """The directory of an export."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_export(self) -> bool:
        """Whether it has an export."""
        with _explaining_errors(self.path):
            self._reject_interrupted()
            return (self.path / MANIFEST).is_file()

    @property
    def is_free(self) -> bool:
        """Whether nothing in it would be lost or mixed up."""
        with _explaining_errors(self.path):
            if not self.path.exists():
                return True
            return self.path.is_dir() and all(one.name == NEW for one in self.path.iterdir())

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
        found = manifest.get("format")
        if not _is_number(found) or found != FORMAT:
            writer = _name_writer(manifest)
            raise StartupError(
                f"{self.path} was written by {writer}, in a format that is not known here",
                hint=f"format {FORMAT} is: import it with {writer} or a later version, or export "
                "again with this one",
            )

    def find_unknown(self) -> Iterator[str]:
        """Yield what an import ignores: a newer docgraph wrote it, or it is something else."""
        manifest = self._read_manifest()
        if _is_number(manifest.get("revision")) and manifest["revision"] > REVISION:
            yield f"{self.path} was written by {_name_writer(manifest)}, which knows more"
        for name in sorted(manifest.keys() - _KNOWN):
            yield f"{self.path / MANIFEST}: {name} is not known here"
        with _explaining_errors(self.path):
            found = [one for one in self.path.iterdir() if one.name not in _OWN]
            for kind in filter(lambda kind: (self.path / kind).is_dir(), _BY_DATABASE):
                found += [one for one in (self.path / kind).iterdir() if one.suffix != ".json"]
        for one in sorted(found):
            if not one.name.startswith("."):
                yield f"{one}: not imported: it is not known here"

    def read_documents(self, name: str) -> list[Document]:
        """Return documents as they were stored; none if there is no such file."""
        with _explaining_errors(self.path / name):
            if not (self.path / name).is_file():
                return []
        found = self._read(name)
        if not isinstance(found, list):
            raise StartupError(f"{self.path / name} is no list of documents")
        for place, one in enumerate(found):
            if not isinstance(one, dict) or "_id" not in one:
                raise StartupError(f"{self.path / name}: [{place}] is no document with an _id")
        return found

    def read_apps(self) -> list[FoundDefinition]:
        """Return every definition, or why it cannot be read."""
        apps, odd = self.path / APPS, self.path / ODD_APPS
        with _explaining_errors(apps):
            has_files = apps.is_dir() and any(apps.iterdir())
        found = read_paths([apps]) if has_files else []
        for one in self.read_documents(ODD_APPS):
            found.append(FoundDefinition(f"{odd}, {make_printable(name_id(one['_id']))}", one))
        return found

    def list_databases(self, kind: str) -> Iterator[str]:
        """Yield the databases that have a file of this kind."""
        with _explaining_errors(self.path / kind):
            files = sorted((self.path / kind).glob("*.json"))
        for file in files:
            yield unquote(file.stem)

    def _read_manifest(self) -> Document:
        manifest = self._read(MANIFEST)
        return manifest if isinstance(manifest, dict) else {}

    def _reject_interrupted(self) -> None:
        former = self.path / FORMER
        if former.exists():
            raise StartupError(
                f"{self.path}: an export was interrupted while it replaced this one",
                hint=f"its files are in {former}: move them back, or remove that directory",
            )

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
