"""What is inferred goes into files that people have: only added, and only if the whole works."""

from __future__ import annotations

from pathlib import Path

from docgraph.cli.apps.definitions import inspect_document
from docgraph.cli.apps.entries import add_entries
from docgraph.cli.apps.sources import APP, MAPPINGS, SCHEMA_FILE, SUFFIXES, read_directory
from docgraph.cli.terminal import make_printable, notice
from docgraph.exchange import Document, StartupError
from docgraph.graphql.infer.existing import Existing
from docgraph.graphql.infer.infer import Inferred
from docgraph.graphql.infer.merge import merge
from docgraph.server.prepare import Prepared

__all__ = ["add_to_files", "check_whole"]


def add_to_files(
    prepared: Prepared, existing: Existing, found: Inferred, directory: Path
) -> list[str]:
    """Add what is new; the notes on what was kept although the sample shows otherwise."""
    merged = merge(existing, found.model)
    file = _find_file(directory)
    text = file.read_bytes().decode() if file.exists() else ""
    mappings = add_entries(text, merged.mappings, file)
    document = read_directory(directory).document
    whole = {**existing.mappings}
    for name, entries in merged.mappings.items():
        whole[name] = {**(whole.get(name) or {}), **entries}
    check_whole(prepared, {**document, "schema": merged.schema, MAPPINGS: whole})
    try:
        if merged.schema != existing.schema:
            (directory / SCHEMA_FILE).write_bytes(merged.schema.encode())
            notice(f"added to {directory / SCHEMA_FILE}")
        if mappings != text:
            file.write_bytes(mappings.encode())
            notice(f"added to {file}")
    except OSError as error:
        raise StartupError(f"{error.filename or directory}: {error.strerror}") from error
    for name in merged.added:
        notice(f"new: {make_printable(name)}")
    if not merged.added:
        notice(f"{directory}: nothing is new")
    return merged.notes


def check_whole(prepared: Prepared, document: Document) -> None:
    """Refuse to write a definition that `apps apply` would not take."""
    errors = inspect_document(prepared, document).errors
    if errors:
        raise StartupError(
            f"the definition would not work: {errors[0]}",
            hint=f"nothing was written; look at {APP} and {SCHEMA_FILE}",
        )


def _find_file(directory: Path) -> Path:
    files = [directory / f"{MAPPINGS}{suffix}" for suffix in SUFFIXES]
    return next((one for one in files if one.exists()), files[0])
