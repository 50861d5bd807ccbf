"""Whatever stands in a configuration, the answer is a configuration or a list of problems."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.config import ConfigSources, decode, load, show
from docgraph.config.config_node import Origin, to_plain
from docgraph.config.options import walk_options
from docgraph.config.parse import parse_yaml
from docgraph.config.render import render_value
from docgraph.exchange.errors import ConfigError
from docgraph.server.prepare import SECTIONS
from tests.chance import examples

NOWHERE = Path("/nonexistent")
HERE = Origin("text")

PATHS = [
    path for name, section in SECTIONS.items() for path, _ in walk_options(section, f"/{name}")
]
NAMES = [*SECTIONS, *(path.rsplit("/", 1)[1] for path in PATHS)]
MARKS = [": ", "\n", "  ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "!!x ", "'", '"', "#", "\t"]
ATOMS = ["true", "1", "null", "|", ">", "? ", "%", "-1", "1.5", "x"]
WORDS = st.sampled_from([*NAMES, *MARKS, *ATOMS])
YAML_TEXTS = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=40).map("".join))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def decode_or_refuse(**sources: Any) -> None:
    tree = load(ConfigSources(directory=NOWHERE, **{"environ": {}, **sources}))
    try:
        show(tree, decode(tree, SECTIONS))
    except ConfigError as error:
        problems = error.problems
    else:
        return
    assert problems
    assert all(str(problem).isprintable() for problem in problems)


@given(YAML_TEXTS)
def test_any_text_parses_or_has_problems(text: str) -> None:
    parsed = parse_yaml(text, lambda line, column: HERE)

    assert parsed.node is not None or parsed.problems


@settings(max_examples=examples(40))
@given(YAML_TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
def test_any_file_is_understood_or_refused(content: bytes) -> None:
    with TemporaryDirectory() as name:
        file = Path(name) / "any.yml"
        file.write_bytes(content)

        decode_or_refuse(file=file)


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from(PATHS), YAML_TEXTS), max_size=3))
def test_any_setting_is_understood_or_refused(settings_given: list[tuple[str, str]]) -> None:
    decode_or_refuse(settings=tuple(f"{path}={value}" for path, value in settings_given))


@settings(max_examples=examples(30))
@given(
    st.text(max_size=60) | st.tuples(st.sampled_from(PATHS), st.text(max_size=30)).map(" -> ".join)
)
def test_any_override_is_understood_or_refused(text: str) -> None:
    decode_or_refuse(environ={"DOCGRAPH_OVERRIDES": text})


@settings(max_examples=examples(30))
@given(st.sampled_from(PATHS), VALUES)
def test_any_value_of_any_option_is_understood_or_refused(path: str, value: object) -> None:
    decode_or_refuse(settings=(f"{path}={render_value(value)}",))


@given(VALUES)
def test_rendered_values_read_back(value: object) -> None:
    parsed = parse_yaml(render_value(value), lambda line, column: HERE)

    assert parsed.node is not None
    assert _same(to_plain(parsed.node), value)


def _same(left: object, right: object) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right and type(left) is type(right)
