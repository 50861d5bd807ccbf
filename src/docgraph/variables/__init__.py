"""Templates with variables: `$arg`, `$fk`, `$ifarg`, `@user …`, compiled once, rendered per use."""

from docgraph.variables.compilation import GRAPHQL, REST, Use, Vocabulary
from docgraph.variables.errors import BadValue, Flaw, NotBound, TemplateError
from docgraph.variables.names import Reference, Source
from docgraph.variables.operators import UnknownOperator
from docgraph.variables.paths import (
    Path,
    compile_field,
    get_field,
    get_value,
    parse_field_path,
    parse_path,
    render_path,
)
from docgraph.variables.placement import find_misplaced
from docgraph.variables.resolvers import BUILT_IN, Resolvers
from docgraph.variables.scope import Scope, Variables
from docgraph.variables.shapes import ConstantPart, find_shape
from docgraph.variables.stages import flatten_stages
from docgraph.variables.template import Context, Template, compile_template, inspect_template
from docgraph.variables.values import (
    MATCH_NOTHING,
    NOTHING,
    UNBOUND,
    CallerDocument,
    TrustedDocument,
    mark_caller,
    matches_nothing,
)

__all__ = [
    "BUILT_IN",
    "GRAPHQL",
    "MATCH_NOTHING",
    "NOTHING",
    "REST",
    "UNBOUND",
    "BadValue",
    "CallerDocument",
    "ConstantPart",
    "Context",
    "Flaw",
    "NotBound",
    "Path",
    "Reference",
    "Resolvers",
    "Scope",
    "Source",
    "Template",
    "TemplateError",
    "TrustedDocument",
    "UnknownOperator",
    "Use",
    "Variables",
    "Vocabulary",
    "compile_field",
    "compile_template",
    "find_misplaced",
    "find_shape",
    "flatten_stages",
    "get_field",
    "get_value",
    "inspect_template",
    "mark_caller",
    "matches_nothing",
    "parse_field_path",
    "parse_path",
    "render_path",
]
