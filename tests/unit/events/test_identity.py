"""Which place in a stream a request names."""

from __future__ import annotations

import pytest

from docgraph.events.identity import find_resume_token
from docgraph.exchange import Headers, Request
from docgraph.exchange.errors import RequestError


def request(query: str = "", header: str | None = None) -> Request:
    headers = Headers() if header is None else Headers.of(last_event_id=header)
    return Request("GET", b"/", query_string=query.encode(), headers=headers)


@pytest.mark.parametrize("id", ["82AB", ' {"_data": "82AB"} ', '{"_data":"82AB"}'])
def test_an_event_is_named_by_its_id_or_the_text_in_it(id: str) -> None:
    assert find_resume_token(request(header=id)) == {"_data": "82AB"}


@pytest.mark.parametrize(("query", "header"), [("", None), ("resume-after=", ""), ("a=b", None)])
def test_who_names_none_begins_now(query: str, header: str | None) -> None:
    assert find_resume_token(request(query, header)) is None


def test_a_browser_that_connects_again_goes_on_after_what_it_got_last() -> None:
    """It asks the same address, whose parameter is from the first time."""
    asked = request("resume-after=8201", header='{"_data":"8202"}')

    assert find_resume_token(asked) == {"_data": "8202"}


@pytest.mark.parametrize(
    "id", ["x", "{", "[]", '{"_data": 5}', '{"_data": "x"}', '{"_data": "82", "a": 1}', "8" * 5000]
)
def test_what_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(RequestError, match="Last-Event-ID is not the id of an event"):
        find_resume_token(request(header=id))
