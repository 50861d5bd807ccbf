"""Arguments of hidden fields: each gets the `@visible` of the field that it compares or sorts by.

`apps infer` writes arguments such as `salaryMin`. When the author hides the field later, inferring
again hides the arguments, too (decision 59). Only directives are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.graphql.definition.check import Examination, examine
from docgraph.graphql.definition.check_fields import CheckContext
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.definition.hidden_uses import HiddenUse, find_hidden_uses
from docgraph.graphql.definition.visibility import SchemaPart, is_required, list_parts, spell_part
from docgraph.store.guard.stage_checks import Policy

_ANY_LIMIT: Final = 2**63


def hide_arguments(
    schema: str, mappings: Mapping[str, Any], added: list[str], notes: list[str]
) -> str:
    """Return the schema with the missing directives; `added` and `notes` get what was done."""
    definition = decode_definition({"_id": "app", "schema": schema, "mappings": mappings})
    parts = examine(definition, CheckContext(_ANY_LIMIT, Policy()))
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
    found: dict[SchemaPart, frozenset[str]] = {}
    for use, part in _list_gated(find_hidden_uses(parts.schema, parts.mappings, parts.visibility)):
        roles = frozenset.intersection(*(restricted[one] for one in use.needs))
        above = [restricted[one] for one in (use.field, part) if one in restricted]
        if not any(own <= roles for own in above):
            found[part] = found.get(part, roles) & roles
    return found


def _list_gated(uses: list[HiddenUse]) -> Iterator[tuple[HiddenUse, SchemaPart]]:
    for use in uses:
        inner = [part for part in use.gates if part[:2] != use.field]  # fields of an input
        gates = inner or list(use.gates)
        if len(gates) == 1:
            yield use, gates[0]
