"""Inferred additions to existing files: written only if the whole definition is valid."""

from __future__ import annotations

from pathlib import Path

from docgraph.cli.apps.definitions import inspect_document
from docgraph.cli.apps.sources import APP, MAPPINGS, SCHEMA_FILE, SUFFIXES, read_directory
from docgraph.cli.terminal import make_printable, notice
from docgraph.exchange import Document, StartupError
from docgraph.server.prepare import LoadedConfiguration
from docgraph.workbench.infer.infer import Inferred
from docgraph.workbench.infer.merge import add_entries, merge, merge_entries
from docgraph.workbench.infer.model import Existing


def add_to_files(
    prepared: LoadedConfiguration, existing: Existing, found: Inferred, directory: Path
) -> list[str]:
    """Add what is new; return notes on differences between the definition and the sample."""
    merged = merge(existing, found.model)
    file = _find_file(directory)
    text = file.read_bytes().decode() if file.exists() else ""
    mappings = add_entries(text, merged.mappings, file)
    document = read_directory(directory).document
    whole = merge_entries(existing.mappings, merged.mappings)
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


def check_whole(prepared: LoadedConfiguration, document: Document) -> None:
    """Reject a definition that `apps apply` would not accept."""
    errors = inspect_document(prepared, document).errors
    if errors:
        raise StartupError(
            f"the definition would not work: {errors[0]}",
            hint=f"nothing was written; check {APP} and {SCHEMA_FILE}",
        )


def _find_file(directory: Path) -> Path:
    files = [directory / f"{MAPPINGS}{suffix}" for suffix in SUFFIXES]
    return next((one for one in files if one.exists()), files[0])
