"""Optional parts of templates: `$ifarg`, in pipelines and in filters.

`[<name> | [<names>], <part>, <else>?]`: the part if all names have a value, otherwise the other one
(decision 9). An explicit null is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docgraph.variables.compilation import Compilation, Place, Render
from docgraph.variables.scope import Scope
from docgraph.variables.variable_names import VariableName

Branch = Callable[[Any, Place], Render]


def build_optional(
    compilation: Compilation, value: Any, where: Place, noun: str, build: Branch, empty: type
) -> Render:
    """Return the closure of an optional part; `empty` creates the value of an omitted part."""
    if not isinstance(value, list) or len(value) not in (2, 3):
        return compilation.flaw(where, f"must be [name or names, {noun}] or [names, {noun}, else]")
    names = _list_names(value)
    if not names:
        return compilation.flaw((*where, 0), "must name one argument or more")
    found = [compilation.reference(name, (*where, 0)) for name in names]
    references: list[VariableName] = [reference for reference in found if reference is not None]
    compilation.options.update({reference.name: reference for reference in references})
    branches = [build(value[i], (*where, i)) for i in range(1, len(value))]

    def render(scope: Scope) -> Any:
        if all(scope.is_bound(reference) for reference in references):
            return branches[0](scope)
        return branches[1](scope) if len(branches) > 1 else empty()

    return render


def decide(source: Any, optional: str, is_given: Callable[[str], bool]) -> Any:
    """Return the source of a filter after deciding the optional conditions that must all hold."""
    if not isinstance(source, Mapping):
        return source
    if optional in source:
        return decide(_choose(source[optional], is_given), optional, is_given)
    members = source.get("$and")
    if not isinstance(members, list):
        return source
    kept = [part for item in members if (part := decide(item, optional, is_given))]
    others = {key: value for key, value in source.items() if key != "$and"}
    return {**others, "$and": kept} if kept else others


def _choose(value: list[Any], is_given: Callable[[str], bool]) -> Any:
    chosen = 1 if all(map(is_given, _list_names(value))) else 2
    branch = value[chosen] if chosen < len(value) else {}
    return {"$and": branch} if isinstance(branch, list) else branch


def _list_names(value: list[Any]) -> list[Any]:
    names = value[0]
    return names if isinstance(names, list) else [names]
