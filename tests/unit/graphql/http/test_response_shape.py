"""The limit on the size of a response counts every byte of it."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.errors import Classification, GraphqlError
from docgraph.graphql.execute.result import Result
from docgraph.graphql.http.response_shape import render_result

ERROR = GraphqlError("wrong", Classification.ABORTED, "some-code")


@pytest.mark.parametrize("errors", [(), (ERROR,), (ERROR,) * 3])
@pytest.mark.parametrize("extensions", [None, {"limits": [{"path": ["a"]}]}])
@pytest.mark.parametrize("data", [None, {}, {"a": 1}, {"a": ["x" * 100] * 500}])
def test_the_whole_body_counts(
    data: dict[str, Any] | None, errors: tuple[GraphqlError, ...], extensions: dict[str, Any] | None
) -> None:
    """Decision 26."""
    result = Result(data, errors, len(errors))
    whole = render_result(result, limit=1 << 20, extensions=extensions)

    fits = render_result(result, limit=len(whole.content), extensions=extensions)
    longer = render_result(result, limit=len(whole.content) - 1, extensions=extensions)

    assert fits == whole
    assert longer.status == 400
    assert b"response-too-large" in longer.content
