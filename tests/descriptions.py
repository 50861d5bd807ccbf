"""Whether a description is valid OpenAPI, asked of each of its parts once in a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator, validate

Place = tuple[str, ...]  # a path, or a component by its kind and name

_valid: set[frozenset[tuple[Place, str]]] = set()  # a part with all that it refers to


def check_description(document: Mapping[str, Any]) -> None:
    """Fail unless the whole description is a valid one.

    The validator takes long for each part: a path or a component that was valid beside the same
    components that it refers to is not shown to it again.
    """
    names = [
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
        if "operationId" in operation
    ]
    assert len(names) == len(set(names)), "the ids of operations are unique"
    parts = dict(_split(document))
    referred = {place: _find_references(part) & parts.keys() for place, part in parts.items()}
    texts = {place: json.dumps(part, sort_keys=True) for place, part in parts.items()}
    reached = {place: _reach(place, referred) for place in parts}
    keys = {
        place: frozenset((one, texts[one]) for one in others) for place, others in reached.items()
    }
    fresh = [place for place, key in keys.items() if key not in _valid]
    shown = {other for place in fresh for other in reached[place]}
    validate(_join(document, shown), cls=OpenAPIV31SpecValidator)
    _valid.update(keys.values())


def _split(document: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    for path, item in document["paths"].items():
        yield ("paths", path), item
    for kind, named in document.get("components", {}).items():
        for name, one in named.items():
            yield ("components", kind, name), one


def _join(document: Mapping[str, Any], shown: set[Place]) -> dict[str, Any]:
    """The description with only these paths and components."""
    paths = {path: item for path, item in document["paths"].items() if ("paths", path) in shown}
    components = {
        kind: {name: one for name, one in named.items() if ("components", kind, name) in shown}
        for kind, named in document.get("components", {}).items()
    }
    return {**document, "paths": paths, "components": components}


def _find_references(part: Any) -> set[Place]:
    """The components that a part refers to; a reference may also lead into one of them."""
    if isinstance(part, list):
        return {place for one in part for place in _find_references(one)}
    if not isinstance(part, dict):
        return set()
    found = {place for one in part.values() for place in _find_references(one)}
    if isinstance(target := part.get("$ref"), str) and target.startswith("#/components/"):
        found.add(tuple(target.split("/")[1:4]))
    return found


def _reach(place: Place, referred: Mapping[Place, set[Place]]) -> set[Place]:
    """A part and whatever its references lead to."""
    reached, waiting = {place}, [place]
    while waiting:
        others = referred[waiting.pop()] - reached
        reached |= others
        waiting += others
    return reached
