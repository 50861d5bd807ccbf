"""Where plugins are found, and what stops the start."""

from typing import ClassVar

import pytest

from docgraph.exchange import StartupError
from docgraph.plugins import discover
from docgraph.plugins.kinds import Service


class Hello(Service):
    name: ClassVar[str] = "hello"
    uri: ClassVar[str] = "/hello"

    async def handle(self, exchange):
        raise AssertionError


PLUGIN = """
from docgraph.plugins.kinds import Service

class Hi(Service):
    name = "{name}"
    uri = "/hi"

    async def handle(self, exchange):
        return None
"""


def test_built_in_plugins_come_through_the_same_door():
    (found,) = discover([Hello], None)
    assert (found.name, found.origin) == ("hello", "built-in")


def test_a_directory_gives_its_modules_and_packages(tmp_path):
    (tmp_path / "one.py").write_text(PLUGIN.format(name="one"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "__init__.py").write_text(PLUGIN.format(name="two"))
    (tmp_path / "_private.py").write_text("raise RuntimeError")
    (tmp_path / "notes.txt").write_text("no plugin")
    assert [found.name for found in discover([], tmp_path)] == ["one", "two"]


def test_imported_kinds_are_not_plugins_of_the_file(tmp_path):
    (tmp_path / "empty.py").write_text("from docgraph.plugins.kinds import Service")
    assert discover([], tmp_path) == ()


def test_a_missing_directory_holds_no_plugins(tmp_path):
    assert discover([], tmp_path / "nowhere") == ()


def test_two_plugins_of_one_name_stop_the_start_and_both_places_are_named(tmp_path):
    (tmp_path / "one.py").write_text(PLUGIN.format(name="hello"))
    with pytest.raises(StartupError, match=r"'hello'.*built-in.*one\.py"):
        discover([Hello], tmp_path)


def test_a_plugin_that_cannot_be_imported_stops_the_start(tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    with pytest.raises(StartupError, match=r"broken\.py.*nothing_of_that_name"):
        discover([], tmp_path)
