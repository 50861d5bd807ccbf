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
    parts = {"definition": _DEFINITION, "mappings": {"allOf": [_ref("mappings")]}, "app": _APP}
    return {"$schema": _DIALECT, **parts[part], "definitions": _DEFINITIONS}


def _ref(name: str) -> JsonSchema:
    return {"$ref": f"#/definitions/{name}"}


def _list(items: JsonSchema, least: int = 1) -> JsonSchema:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


def _map(values: JsonSchema) -> JsonSchema:
    return {"type": "object", "additionalProperties": values}


def _choose(key: str, name: str, others: JsonSchema) -> JsonSchema:
    return {"if": {"required": [key]}, "then": _ref(name), "else": others}


def _about(description: str, schema: JsonSchema) -> JsonSchema:
    return {"description": description, **schema}


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
    return {"anyOf": [*shapes, _ref("operator")]}


def _flag(description: str) -> JsonSchema:
    return _about(description, {"type": "boolean", "default": False})


_TEXT: JsonSchema = {"type": "string"}
_NAME: JsonSchema = {"type": "string", "minLength": 1}
_ANY: JsonSchema = {}
_POSITIVE: JsonSchema = {"type": "integer", "minimum": 1}
_NAMESPACE: JsonSchema = {
    "db": _about("The database.", _NAME),
    "collection": _about("The collection.", _NAME),
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
    "find": _ref("filter"),
    "sort": _about(
        "Properties with 1 or -1.",
        _map(_with_operator({"enum": [1, -1]}, {"type": ["object", "null"]})),
    ),
    "skip": _COUNT,
    "limit": _COUNT,
    "dataLoader": _DATA_LOADER,
}
_NAMES: JsonSchema = {"anyOf": [_NAME, _list(_NAME)]}
_PATHS: JsonSchema = {"anyOf": [_NAME, _list(_NAME), {**_map(_NAME), "minProperties": 1}]}
_CONNECTION = _object(
    "Pages with cursors in place of the list (Relay): edges, nodes, pageInfo, totalCount.",
    {
        "field": _about(
            "A field that is added for the pages; without it the list is replaced.", _NAME
        )
    },
)
_INDEXED_ONLY = _flag("Reject what no index of a declared field serves.")
_WHERE_FIELDS: JsonSchema = {
    "fields": _about(
        "Fields of the item type, `a.b` for embedded ones: their operators.",
        _map(_list({"enum": [*OPERATORS, "range"]})),
    ),
    "relations": _about(
        "Relations of the item type: what callers may filter their documents by.",
        _map(_ref("relation")),
    ),
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
        "fields": _about(
            "Fields of the item type, `a.b` for embedded ones and relations.", _list(_NAME)
        ),
        "indexed-only": _INDEXED_ONLY,
    },
    "fields",
)
_ID: JsonSchema = _about(
    "The name of the app, and its address without descriptor.uri.",
    {"anyOf": [_NAME, {"type": ["object", "integer"]}]},
)

_OPERATION = _object(
    "A query with a name.", {"name": _NAME, "description": _TEXT, "query": _NAME}, "name", "query"
)
_DEFINITIONS: JsonSchema = {
    "descriptor": _object(
        "The header of the app.",
        {
            "uri": _about("Where the app is served, in place of its _id.", _NAME),
            "description": _TEXT,
            "enabled": {"type": "boolean", "default": True},
            "json-mode": _about("How values of results are written.", {"enum": list(JSON_MODES)}),
            "csv": _flag("Whether Accept: text/csv gives an answer with one list as CSV."),
            "live": {
                "description": "Who may run live queries (`query @live`): everybody, or roles.",
                "anyOf": [{"type": "boolean"}, _list(_TEXT)],
                "default": False,
            },
            "cache": _object(
                "Whether answers are cached until the data changes.",
                {
                    "enabled": {"type": "boolean", "default": False},
                    "max-age-s": _about(
                        "After how many seconds an answer is read again anyway.", _POSITIVE
                    ),
                },
            ),
            "limits": _object(
                "What one query of this app may cost.",
                dict.fromkeys(GraphqlLimits.__struct_encode_fields__, _POSITIVE),
            ),
            "operations": _about(
                "Stored queries: by name over HTTP, and each a tool for agents.",
                _list(_OPERATION, least=0),
            ),
        },
    ),
    "mappings": _about("How types and fields meet the database.", _map(_ref("type"))),
    "type": {
        "description": "The fields of an object type, the values of an enum, or $typeResolver.",
        "type": "object",
        "properties": {
            "$typeResolver": _about(
                "The predicate of each possible type; the first that holds wins.", _map(_TEXT)
            )
        },
        "additionalProperties": _ref("field"),
    },
    "field": {
        "description": "The path of a property, a query, an aggregation, or the value of an enum.",
        "if": {"type": "object", "required": ["collection"]},
        "then": _choose(
            "stages",
            "aggregation",
            _choose("count", "count", _choose("group", "group", _ref("query"))),
        ),
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
            "find": _ref("filter"),
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
                    "by": _about("The values that distinguish the groups.", _PATHS),
                    "unwind": _about("Lists whose elements are grouped one by one.", _NAMES),
                    "sum": _about("Sums of the numbers.", _PATHS),
                    "avg": _about("Averages of the numbers.", _PATHS),
                    "min": _about("The smallest values.", _PATHS),
                    "max": _about("The largest values.", _PATHS),
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
            "stages": _list(_ref("stage"), least=0),
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
            "$arg": _ref("argument"),
            "$ifarg": _ref("optional"),
            **dict.fromkeys(
                ("$and", "$or", "$nor"), _with_operator(_list(_ref("filter"), least=0))
            ),
        },
    },
    "stage": {
        "description": "A stage of a pipeline, or $ifarg around some.",
        "type": "object",
        "properties": {
            "$match": _ref("filter"),
            "$ifarg": _ref("optional"),
        },
        "minProperties": 1,
        "maxProperties": 1,
    },
    "operator": {
        "anyOf": [
            _operator("$arg", "An argument or variable.", _ref("argument")),
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
            _NAMES,
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
    "properties": {"_id": _ID, "descriptor": _ref("descriptor")},
}
_DEFINITION: JsonSchema = {
    "title": "A docgraph app",
    "type": "object",
    "properties": {
        **_APP["properties"],
        "schema": {"type": "string", "description": "The schema in the GraphQL schema language."},
        "mappings": _ref("mappings"),
    },
    "required": ["schema", "mappings"],
}
