"""Arguments of hidden fields: each gets the `@visible` of the field that it compares or sorts by.

`apps infer` writes arguments such as `salaryMin`. When the author hides the field later, inferring
again hides the arguments, too (decision 59). Only directives are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from docgraph.tools.apps import (
    Examination,
    HiddenUse,
    SchemaPart,
    examine_mappings,
    find_hidden_uses,
    is_required,
    list_parts,
    spell_part,
)


def hide_arguments(
    schema: str, mappings: Mapping[str, Any], added: list[str], notes: list[str]
) -> str:
    """Return the schema with the missing directives; `added` and `notes` get what was done."""
    parts = examine_mappings(schema, mappings)
    if parts.schema is None:
        return schema
    nodes = dict(list_parts(parts.schema))
    texts: dict[int, str] = {}
    for part, roles in _find_open(parts).items():
        target = part
        if is_required(nodes[part]):
            target = part[:2]
            if spell_part(target) not in added:
                notes.append(f"{spell_part(part)}: kept; it is required, so hide its field")
                continue
        node = nodes[target].ast_node
        if node is not None and node.loc is not None and target not in parts.visibility.roles:
            texts[node.loc.end] = f" @visible(roles: {json.dumps(sorted(roles))})"
            added.append(f"{spell_part(target)} @visible")
    for place in sorted(texts, reverse=True):
        schema = f"{schema[:place]}{texts[place]}{schema[place:]}"
    return schema


def _find_open(parts: Examination) -> dict[SchemaPart, frozenset[str]]:
    """Return the arguments that are less hidden than the fields they use, with the fields' roles.

    A condition that depends on several arguments does not say which of them to hide.
    """
    assert parts.schema is not None  # noqa: S101 - checked by the caller
    restricted = parts.visibility.roles
    open_parts: dict[SchemaPart, frozenset[str]] = {}
    for use, part in _list_gated(find_hidden_uses(parts.schema, parts.mappings, parts.visibility)):
        roles = frozenset.intersection(*(restricted[needed] for needed in use.needs))
        above = [restricted[place] for place in (use.field, part) if place in restricted]
        if not any(given <= roles for given in above):
            open_parts[part] = open_parts.get(part, roles) & roles
    return open_parts


def _list_gated(uses: list[HiddenUse]) -> Iterator[tuple[HiddenUse, SchemaPart]]:
    for use in uses:
        inner = [part for part in use.gates if part[:2] != use.field]  # fields of an input
        gates = inner or list(use.gates)
        if len(gates) == 1:
            yield use, gates[0]
