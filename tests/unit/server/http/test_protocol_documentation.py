"""The page of limits names every option with its default."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from docgraph.server.sections import ConnectionOptions

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "http-limits.md"
FIELDS = msgspec.structs.fields(ConnectionOptions)


def _spellings(name: str, value: int | None) -> set[str]:
    if value is None:
        return {"half of `max-connections`" if "connections" in name else "a third of what"}
    if isinstance(value, bool):
        return {str(value).lower()}
    if name.endswith("-ms"):
        return {f"{value // 1000} s"}
    sizes = {f"{value >> 10} KiB", f"{value >> 20} MiB"} if value >= 1024 else set()
    return {str(value), f"{value:,}".replace(",", " "), *sizes}


@pytest.mark.parametrize("field", FIELDS, ids=[field.encode_name for field in FIELDS])
def test_an_option_of_connections_is_documented_with_its_default(
    field: msgspec.structs.FieldInfo,
) -> None:
    tables = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [cells for cells in tables if cells[2].strip() == f"`{field.encode_name}`"]

    assert len(rows) == 1
    default = rows[0][3].strip()
    assert any(
        default.startswith(spelling) for spelling in _spellings(field.encode_name, field.default)
    )
