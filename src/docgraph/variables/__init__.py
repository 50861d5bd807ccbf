"""Templates with variables: `$arg`, `$fk`, `$ifarg`, `@user …`, compiled once, rendered per use."""

from docgraph.exchange.data import TrustedDocument
from docgraph.variables.compilation import GRAPHQL, REST, Placeholder
from docgraph.variables.compile_stages import flatten_stages
from docgraph.variables.errors import Flaw, NotBound, TemplateError, UnusableValue
from docgraph.variables.paths import (
    ValueOrigin,
    VariableName,
    compile_field,
    get_field,
    get_value,
    parse_field_path,
    parse_path,
    render_path,
)
from docgraph.variables.placement import (
    find_misplaced,
    find_missing_metadata,
    find_search_conflicts,
    find_text_comparison,
)
from docgraph.variables.resolvers import BUILT_IN, Resolvers, Scope, Variables
from docgraph.variables.shapes import StagePart, UnknownOperator, find_shape
from docgraph.variables.template import (
    Template,
    TemplateContext,
    compile_template,
    inspect_template,
)
from docgraph.variables.value_marks import (
    MATCH_NOTHING,
    NOTHING,
    UNBOUND,
    CallerDocument,
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
    "CallerDocument",
    "Flaw",
    "NotBound",
    "Placeholder",
    "Resolvers",
    "Scope",
    "StagePart",
    "Template",
    "TemplateContext",
    "TemplateError",
    "TrustedDocument",
    "UnknownOperator",
    "UnusableValue",
    "ValueOrigin",
    "VariableName",
    "Variables",
    "compile_field",
    "compile_template",
    "find_misplaced",
    "find_missing_metadata",
    "find_search_conflicts",
    "find_shape",
    "find_text_comparison",
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
