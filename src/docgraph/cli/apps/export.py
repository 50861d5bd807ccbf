"""Export of a definition as files: the schema as SDL, mappings and descriptor as YAML or JSON."""

from __future__ import annotations

from pathlib import Path

import orjson

from docgraph.cli.apps.sources import APP, MAPPINGS, SCHEMA_FILE, SUFFIXES
from docgraph.codec import JsonMode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Document, StartupError


def is_holdable(document: Document) -> bool:
    """Return whether it has the parts that have files of their own."""
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


def _write_part(directory: Path, part: str, content: Document) -> Path:
    files = [directory / f"{part}{suffix}" for suffix in SUFFIXES]
    file = next((one for one in files if one.exists()), files[0])
    plain = to_json(content, JsonMode.STANDARD)
    if file.suffix == ".json":
        file.write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2) + b"\n")
    else:
        file.write_bytes(render_block(plain).encode())
    return file
