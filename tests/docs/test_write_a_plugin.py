"""`docs/how-to/write-a-plugin.md` says what a data interceptor looks like."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import docgraph
from docgraph import DataInterceptor, DataPoint, Kind, Resource, ResourceType, Write, WriteKind
from docgraph.plugins import assemble, discover, kinds
from docgraph.store.intercept import Interceptors

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-plugin.md"
ORDERS = Resource(ResourceType.COLLECTION, "shop", "orders")
ROW = re.compile(r"^\| `(?P<point>[a-z-]+)` \| `(?P<method>\w+)\((?P<parameters>.*)\)` \|", re.M)


def test_every_point_is_named_with_its_method_and_parameters() -> None:
    rows = {row["point"]: (row["method"], row["parameters"]) for row in ROW.finditer(page())}

    assert set(rows) == set(DataPoint)
    for method, parameters in rows.values():
        signature = inspect.signature(getattr(DataInterceptor, method))
        assert ["self", *parameters.split(", ")] == list(signature.parameters)


def test_the_kinds_and_the_words_they_speak_can_be_imported_from_docgraph() -> None:
    spoken = re.findall(
        r"^from docgraph\.exchange import \((.*?)\)", inspect.getsource(kinds), re.M | re.S
    )
    words = re.findall(r"\w+", " ".join(spoken))

    assert {"Document", "Write"} <= set(words)
    assert {*kinds.__all__, *words, "WriteKind", "ResourceType"} <= set(docgraph.__all__)


@pytest.fixture
def example(tmp_path: Path) -> Interceptors:
    """The example of the page, from a directory of plugins."""
    (code,) = re.findall(r"```python\n(.*?)```", page(), re.S)
    (tmp_path / "orders.py").write_text(code, encoding="utf-8")
    plugins = assemble(discover((), tmp_path), {}, {})
    return Interceptors(plugins.of_kind(Kind.DATA_INTERCEPTOR))


async def test_the_example_stamps_what_is_written_and_hides_it_from_readers(
    example: Interceptors,
) -> None:
    write = await example.before_write(None, ORDERS, Write(WriteKind.INSERT, ({"_id": 1},)))
    read = await example.after_read(None, ORDERS, list(write.documents))

    assert [set(document) for document in write.documents] == [{"_id", "received"}]
    assert read == [{"_id": 1}]


def page() -> str:
    return PAGE.read_text(encoding="utf-8")
