"""Export writer: writes the files of an export."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson

from docgraph import __version__
from docgraph.cli.apps.export import is_holdable, write_definition
from docgraph.cli.apps.sources import is_looked_into, read_directory
from docgraph.codec import JsonMode, to_json
from docgraph.exchange import Document
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
        """Write documents as they are stored."""
        self._write(name, [to_json(one, JsonMode.EXTENDED) for one in documents])

    def write_app(self, document: Document) -> bool:
        """Write a definition into files; return False if they cannot represent it."""
        directory = self.path / APPS / self._name_app(str(document["_id"]))
        if is_holdable(document):
            self._make_part(APPS)
            directory.mkdir(mode=0o700)
            for file in write_definition(document, directory):
                file.chmod(0o600)
            found = read_directory(directory)
            if found.flaw is None and is_same(found.document, document):
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

    def _make_part(self, name: str) -> None:
        (self.path / name).mkdir(exist_ok=True, mode=0o700)

    def _write(self, name: str, content: Any) -> None:
        path = self.path / name
        if path.parent != self.path:
            self._make_part(path.parent.name)
        # Never write to a file or a link that another process has put there meanwhile.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "wb") as stream:
            stream.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
