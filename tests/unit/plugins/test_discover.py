"""Where plugins are found, and what stops the start."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from docgraph.exchange import Answer, StartupError
from docgraph.plugins import discover
from docgraph.plugins.kinds import Service


class Hello(Service):
    name: ClassVar[str] = "hello"
    uri: ClassVar[str] = "/hello"

    async def handle(self, exchange: Any) -> Answer:
        raise AssertionError


PLUGIN = """
from docgraph.plugins.kinds import Service

class Hi(Service):
    name = "{name}"
    uri = "/hi"

    async def handle(self, exchange):
        return None
"""


def test_built_in_plugins_come_through_the_same_door() -> None:
    (found,) = discover([Hello], None)
    assert (found.name, found.origin) == ("hello", "built-in")


def test_a_directory_gives_its_modules_and_packages(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(PLUGIN.format(name="one"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "__init__.py").write_text(PLUGIN.format(name="two"))
    (tmp_path / "_private.py").write_text("raise RuntimeError")
    (tmp_path / "notes.txt").write_text("no plugin")
    assert [found.name for found in discover([], tmp_path)] == ["one", "two"]


def test_imported_kinds_are_not_plugins_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("from docgraph.plugins.kinds import Service")
    assert discover([], tmp_path) == ()


def test_a_missing_directory_holds_no_plugins(tmp_path: Path) -> None:
    assert discover([], tmp_path / "nowhere") == ()


def test_two_plugins_of_one_name_stop_the_start_and_both_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(PLUGIN.format(name="hello"))
    with pytest.raises(StartupError, match=r"'hello'.*built-in.*one\.py"):
        discover([Hello], tmp_path)


def test_a_plugin_that_cannot_be_imported_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    with pytest.raises(StartupError, match=r"broken\.py.*nothing_of_that_name"):
        discover([], tmp_path)


NAMELESS = """
from docgraph import Kind, Plugin, Service

class Hi({base}):
    {line}

    async def handle(self, exchange):
        return None
"""


@pytest.mark.parametrize(
    ("base", "line", "told"),
    [
        ("Service", "uri = '/hi'", r"class Hi from .*hi\.py is a plugin \(service\) without a `na"),
        ("Service", "name = ''", "without a `name`"),
        ("Service", "name = 5", "without a `name`"),
        ("Plugin", "name = 'hi'", "class Hi from .* is a plugin without a `kind`"),
        ("object", "name, kind = 'hi', 'service'", "without a `kind`"),
        ("object", "kind = Kind.SERVICE", "without a `name`"),
    ],
)
def test_a_class_that_is_meant_to_be_a_plugin_and_is_none_stops_the_start(
    tmp_path: Path, base: str, line: str, told: str
) -> None:
    (tmp_path / "hi.py").write_text(NAMELESS.format(base=base, line=line))
    with pytest.raises(StartupError, match=told):
        discover([], tmp_path)


def test_classes_that_others_build_on_need_no_name(tmp_path: Path) -> None:
    bases = "\n".join(
        (
            "from typing import Protocol",
            "from docgraph import Service",
            "class Base(Service): pass",
            "class _Unused(Service): pass",
            "class Shape(Service, Protocol): pass",
            "class One(Base): name = 'one'",
            "Alias = One",
        )
    )
    (tmp_path / "bases.py").write_text(bases)
    assert [found.name for found in discover([], tmp_path)] == ["one"]


@pytest.mark.parametrize(
    ("kind", "base"), [("Service", "ServiceConfig"), ("Initializer", "PluginConfig")]
)
def test_a_config_that_is_no_section_stops_the_start_and_what_to_extend_is_named(
    tmp_path: Path, kind: str, base: str
) -> None:
    (tmp_path / "hi.py").write_text(
        f"from docgraph import {kind}\nclass Hi({kind}):\n    name = 'hi'\n    Config = dict\n"
    )
    with pytest.raises(StartupError, match=rf"'hi' from .*hi\.py .*`docgraph\.{base}`"):
        discover([], tmp_path)
