"""JSON Schema of definitions, for completion and validation in editors.

It describes the keys and their values. Only `check` decides whether a definition works; the schema
accepts everything that works. It is Draft 7, because that is what editors support.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from msgspec.yaml import decode

from docgraph.graphql.definition.scalars import JSON_MODES
from docgraph.graphql.sections import GraphqlLimits
from docgraph.graphql.where import OPERATORS

DefinitionPart = Literal["definition", "mappings", "app"]
JsonSchema = dict[str, Any]

_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
# Read at import: the first request that needs it comes on the event loop.
_TEXT: Final = files(__package__).joinpath("definition_schema.yaml").read_bytes()


def build_json_schema(part: DefinitionPart = "definition") -> JsonSchema:
    """Return the schema of a whole definition, or of `mappings.yml` or `app.yml`."""
    schemas = _read_schemas()
    return {"$schema": _DIALECT, **schemas[part], "definitions": schemas["definitions"]}


@cache
def _read_schemas() -> dict[str, JsonSchema]:
    """Return the schemas of `definition_schema.yaml` with the lists that the code has."""
    schemas = decode(_TEXT, type=dict[str, JsonSchema])
    operators = schemas["shared"]["where"]["fields"]["additionalProperties"]["items"]
    operators["enum"] = [*OPERATORS, "range"]
    descriptor = schemas["definitions"]["descriptor"]["properties"]
    descriptor["json-mode"]["enum"] = list(JSON_MODES)
    limit = {"type": "integer", "minimum": 1}
    descriptor["limits"]["properties"] = dict.fromkeys(
        GraphqlLimits.__struct_encode_fields__, limit
    )
    return schemas
