"""Whether a description is valid OpenAPI, asked of each of its paths once in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator, validate

_valid: set[tuple[str, str]] = set()  # the components, a path with what is at it


def check_description(document: Mapping[str, Any]) -> None:
    """Fail unless the whole description is a valid one.

    The validator takes long for each path: one that was valid beside the same components is not
    shown to it again.
    """
    names = [
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
        if "operationId" in operation
    ]
    assert len(names) == len(set(names)), "the ids of operations are unique"
    components = json.dumps(document.get("components"), sort_keys=True)
    keys = {
        path: (components, json.dumps([path, item], sort_keys=True))
        for path, item in document["paths"].items()
    }
    fresh = {path: item for path, item in document["paths"].items() if keys[path] not in _valid}
    validate({**document, "paths": fresh}, cls=OpenAPIV31SpecValidator)
    _valid.update(keys.values())
