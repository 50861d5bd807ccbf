"""JSON Schema of definitions, for completion and validation in editors.

It describes the keys and their values. Only `check` decides whether a definition works; the schema
accepts everything that works. It is Draft 7, because that is what editors support.
"""

from __future__ import annotations

from typing import Any, Literal

from docgraph.graphql.definition.scalars import JSON_MODES
from docgraph.graphql.sections import GraphqlLimits
from docgraph.graphql.where import OPERATORS

DefinitionPart = Literal["definition", "mappings", "app"]
JsonSchema = dict[str, Any]

_DIALECT = "http://json-schema.org/draft-07/schema#"


def build_json_schema(part: DefinitionPart = "definition") -> JsonSchema:
    """Return the schema of a whole definition, or of `mappings.yml` or `app.yml`."""
    parts = {"definition": _DEFINITION, "mappings": _refer("mappings"), "app": _APP}
    return {"$schema": _DIALECT, **parts[part], "definitions": _DEFINITIONS}


def _refer(name: str) -> JsonSchema:
    return {"allOf": [{"$ref": f"#/definitions/{name}"}]}


def _object(description: str, properties: JsonSchema, *required: str) -> JsonSchema:
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
    }


def _operator(name: str, description: str, *shapes: JsonSchema) -> JsonSchema:
    return _object(description, {name: {"anyOf": list(shapes)}}, name)


def _with_operator(*shapes: JsonSchema) -> JsonSchema:
    return {"anyOf": [*shapes, {"$ref": "#/definitions/operator"}]}


def _flag(description: str) -> JsonSchema:
    return {"description": description, "type": "boolean", "default": False}


_TEXT: JsonSchema = {"type": "string"}
_NAME: JsonSchema = {"type": "string", "minLength": 1}
_ANY: JsonSchema = {}
_NAMESPACE: JsonSchema = {
    "db": {**_NAME, "description": "The database."},
    "collection": {**_NAME, "description": "The collection."},
}
_DATA_LOADER = _object(
    "How the field is fetched for many parents.",
    {
        "batching": {"type": "boolean"},
        "caching": {"type": "boolean"},
        "maxBatchSize": {"type": "integer"},
    },
)
_COUNT = _with_operator({"type": "integer", "minimum": 0}, {"type": "null"})
_QUERY: JsonSchema = {
    **_NAMESPACE,
    "find": {"$ref": "#/definitions/filter"},
    "sort": {
        "description": "Properties with 1 or -1.",
        "type": "object",
        "additionalProperties": _with_operator({"enum": [1, -1]}, {"type": ["object", "null"]}),
    },
    "skip": _COUNT,
    "limit": _COUNT,
    "dataLoader": _DATA_LOADER,
}
_PATHS: JsonSchema = {
    "anyOf": [
        _NAME,
        {"type": "array", "items": _NAME, "minItems": 1},
        {"type": "object", "additionalProperties": _NAME, "minProperties": 1},
    ]
}
_CONNECTION = _object(
    "Pages with cursors in place of the list (Relay): edges, nodes, pageInfo, totalCount.",
    {
        "field": {
            **_NAME,
            "description": "A field that is added for the pages; without it the list is replaced.",
        }
    },
)
_INDEXED_ONLY = _flag("Reject what no index of a declared field serves.")
_WHERE_FIELDS: JsonSchema = {
    "fields": {
        "description": "Fields of the item type, `a.b` for embedded ones: their operators.",
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "minItems": 1,
            "items": {"enum": [*OPERATORS, "range"]},
        },
    },
    "relations": {
        "description": "Relations of the item type: what callers may filter their documents by.",
        "type": "object",
        "additionalProperties": {"$ref": "#/definitions/relation"},
    },
}
_FILTER = _object(
    "What callers may filter by: an argument `where`.",
    {
        **_WHERE_FIELDS,
        "search": _flag("Callers may search by the text index of the collection."),
        "indexed-only": _INDEXED_ONLY,
    },
)
_ORDER_BY = _object(
    "What callers may order by: an argument `orderBy`.",
    {
        "fields": {
            "description": "Fields of the item type, `a.b` for embedded ones and relations.",
            "type": "array",
            "minItems": 1,
            "items": _NAME,
        },
        "indexed-only": _INDEXED_ONLY,
    },
    "fields",
)
_ID: JsonSchema = {
    "description": "The name of the app, and its address without descriptor.uri.",
    "anyOf": [{"type": "string", "minLength": 1}, {"type": ["object", "integer"]}],
}

_DEFINITIONS: JsonSchema = {
    "descriptor": _object(
        "The header of the app.",
        {
            "uri": {**_NAME, "description": "Where the app is served, in place of its _id."},
            "description": _TEXT,
            "enabled": {"type": "boolean", "default": True},
            "json-mode": {
                "description": "How values of results are written.",
                "enum": list(JSON_MODES),
            },
            "csv": _flag("Whether Accept: text/csv gives an answer with one list as CSV."),
            "live": {
                "description": "Who may run live queries (`query @live`): everybody, or roles.",
                "anyOf": [
                    {"type": "boolean"},
                    {"type": "array", "minItems": 1, "items": {"type": "string"}},
                ],
                "default": False,
            },
            "cache": _object(
                "Whether answers are cached until the data changes.",
                {
                    "enabled": {"type": "boolean", "default": False},
                    "max-age-s": {
                        "description": "After how many seconds an answer is read again anyway.",
                        "type": "integer",
                        "minimum": 1,
                    },
                },
            ),
            "limits": _object(
                "What one query of this app may cost.",
                {
                    name: {"type": "integer", "minimum": 1}
                    for name in GraphqlLimits.__struct_encode_fields__
                },
            ),
            "operations": {
                "description": "Stored queries: by name over HTTP, and each a tool for agents.",
                "type": "array",
                "items": _object(
                    "A query with a name.",
                    {"name": _NAME, "description": _TEXT, "query": _NAME},
                    "name",
                    "query",
                ),
            },
        },
    ),
    "mappings": {
        "description": "How types and fields meet the database.",
        "type": "object",
        "additionalProperties": {"$ref": "#/definitions/type"},
    },
    "type": {
        "description": "The fields of an object type, the values of an enum, or $typeResolver.",
        "type": "object",
        "properties": {
            "$typeResolver": {
                "description": "The predicate of each possible type; the first that holds wins.",
                "type": "object",
                "additionalProperties": _TEXT,
            }
        },
        "additionalProperties": {"$ref": "#/definitions/field"},
    },
    "field": {
        "description": "The path of a property, a query, an aggregation, or the value of an enum.",
        "if": {"type": "object", "required": ["collection"]},
        "then": {
            "if": {"required": ["stages"]},
            "then": {"$ref": "#/definitions/aggregation"},
            "else": {
                "if": {"required": ["count"]},
                "then": {"$ref": "#/definitions/count"},
                "else": {
                    "if": {"required": ["group"]},
                    "then": {"$ref": "#/definitions/group"},
                    "else": {"$ref": "#/definitions/query"},
                },
            },
        },
    },
    "query": _object(
        "Documents of a collection.",
        {**_QUERY, "filter": _FILTER, "orderBy": _ORDER_BY, "connection": _CONNECTION},
        *_NAMESPACE,
    ),
    "relation": _object("Conditions on the documents of a relation.", _WHERE_FIELDS),
    "count": _object(
        "How many documents a filter finds.",
        {
            **_NAMESPACE,
            "find": {"$ref": "#/definitions/filter"},
            "count": {"const": True},
            "dataLoader": _DATA_LOADER,
        },
        *_NAMESPACE,
        "count",
    ),
    "group": _object(
        "Groups of documents with their totals.",
        {
            **_QUERY,
            "group": _object(
                "What the groups have in common, and their totals: paths of properties.",
                {
                    "by": {**_PATHS, "description": "The values that distinguish the groups."},
                    "unwind": {
                        "description": "Lists whose elements are grouped one by one.",
                        "anyOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1}],
                    },
                    "sum": {**_PATHS, "description": "Sums of the numbers."},
                    "avg": {**_PATHS, "description": "Averages of the numbers."},
                    "min": {**_PATHS, "description": "The smallest values."},
                    "max": {**_PATHS, "description": "The largest values."},
                },
            ),
            "allowDiskUse": {"type": "boolean"},
        },
        *_NAMESPACE,
        "group",
    ),
    "aggregation": _object(
        "The results of a pipeline.",
        {
            **_NAMESPACE,
            "stages": {"type": "array", "items": {"$ref": "#/definitions/stage"}},
            "allowDiskUse": {"type": "boolean"},
            "dataLoader": _DATA_LOADER,
        },
        *_NAMESPACE,
        "stages",
    ),
    "filter": {
        "description": "A filter of MongoDB, with $arg, $fk and $ifarg.",
        "type": "object",
        "properties": {
            "$arg": {"$ref": "#/definitions/argument"},
            "$ifarg": {"$ref": "#/definitions/optional"},
            **dict.fromkeys(
                ("$and", "$or", "$nor"),
                _with_operator({"type": "array", "items": {"$ref": "#/definitions/filter"}}),
            ),
        },
    },
    "stage": {
        "description": "A stage of a pipeline, or $ifarg around some.",
        "type": "object",
        "properties": {
            "$match": {"$ref": "#/definitions/filter"},
            "$ifarg": {"$ref": "#/definitions/optional"},
        },
        "minProperties": 1,
        "maxProperties": 1,
    },
    "operator": {
        "anyOf": [
            _operator("$arg", "An argument or variable.", {"$ref": "#/definitions/argument"}),
            _operator("$fk", "A property of the parent document.", _NAME),
        ]
    },
    "argument": {
        "description": "A name, or a name and the default where it is not given.",
        "anyOf": [
            _NAME,
            {"type": "array", "items": [_NAME, _ANY], "minItems": 2, "maxItems": 2},
        ],
    },
    "optional": {
        "description": "[name or names, what is there when they are given, what else]",
        "type": "array",
        "items": [
            {"anyOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1}]},
            {"type": ["object", "array"]},
            {"type": ["object", "array"]},
        ],
        "minItems": 2,
        "maxItems": 3,
    },
}
_APP: JsonSchema = {
    "title": "A docgraph app, without its schema and mappings",
    "type": "object",
    "properties": {"_id": _ID, "descriptor": {"$ref": "#/definitions/descriptor"}},
}
_DEFINITION: JsonSchema = {
    "title": "A docgraph app",
    "type": "object",
    "properties": {
        **_APP["properties"],
        "schema": {"type": "string", "description": "The schema in the GraphQL schema language."},
        "mappings": {"$ref": "#/definitions/mappings"},
    },
    "required": ["schema", "mappings"],
}
