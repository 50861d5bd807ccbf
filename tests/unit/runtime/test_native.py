"""Which lane renders documents: the extension is used only if it is of our version, and wanted."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from docgraph import __version__
from docgraph.observe import subscribe, unsubscribe
from docgraph.observe.engine_events import NativeIgnored
from docgraph.observe.event import Event
from docgraph.runtime import native

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each test decides anew, and leaves the decision to the next one."""
    monkeypatch.delenv(native.VARIABLE, raising=False)
    native._load.cache_clear()
    yield
    native._load.cache_clear()


class AnyName(type):
    """A class that has every name."""

    def __getattr__(cls, name: str) -> None:
        return None


class Part(Exception, metaclass=AnyName):
    """Whatever the extension offers; these tests use none of it."""


class Extension(ModuleType):
    """A module with every name."""

    def __getattr__(self, name: str) -> type[Part]:
        return Part


def install(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Make this the version that is installed."""
    module = Extension("docgraph_native")
    module.__dict__["__version__"] = version
    monkeypatch.setitem(sys.modules, "docgraph_native", module)


def collect_events() -> list[Event]:
    """The events of the report."""
    found: list[Event] = []
    subscribe(found.append)
    try:
        native.report_native()
    finally:
        unsubscribe(found.append)
    return found


def test_the_lane_of_our_version_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, __version__)

    assert native.find_native() is not None
    assert native.name_lane() == "native"
    assert native.explain_lane() == f"native, docgraph-native {__version__}"
    assert collect_events() == []


@pytest.mark.parametrize("kind", ["Batch", "Program"])
def test_an_extension_of_older_sources_is_ignored(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its version is the same, and a method is missing."""
    install(monkeypatch, __version__)
    sys.modules["docgraph_native"].__dict__[kind] = type(kind, (), {"whole": None})

    assert native.find_native() is None
    assert native.explain_lane() == "Python: docgraph-native lacks a function: build it again"


def test_another_version_is_ignored_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "0.0.9")

    assert native.find_native() is None
    assert native.name_lane() == "python"
    reason = f"docgraph-native is 0.0.9, docgraph is {__version__}"
    assert native.explain_lane() == f"Python: {reason}"
    assert collect_events() == [NativeIgnored(reason)]


def test_an_older_build_of_our_version_is_ignored_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("docgraph_native")
    module.__dict__["__version__"] = __version__
    monkeypatch.setitem(sys.modules, "docgraph_native", module)

    assert native.find_native() is None
    reason = "docgraph-native lacks a function: build it again"
    assert collect_events() == [NativeIgnored(reason)]


@pytest.mark.parametrize("value", ["off", "OFF", "0", "false"])
def test_a_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    install(monkeypatch, __version__)
    monkeypatch.setenv("DOCGRAPH_NATIVE", value)

    assert native.find_native() is None
    assert native.explain_lane() == "Python: DOCGRAPH_NATIVE turns the native lane off"
    assert collect_events() == []


def test_nothing_is_reported_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_MODULE", "docgraph_native_that_nobody_has")

    assert native.find_native() is None
    assert native.explain_lane() == "Python: docgraph-native is not installed"
    assert collect_events() == []


def test_a_file_that_cannot_be_loaded_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "docgraph_native_damaged.abi3.so").write_bytes(b"no library")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(native, "_MODULE", "docgraph_native_damaged")

    assert native.find_native() is None
    assert collect_events() == [NativeIgnored("docgraph-native cannot be loaded")]


def test_the_crate_has_our_version_and_exact_ones_of_others() -> None:
    """There is no Cargo.lock, which would name the address of a registry."""
    crate = tomllib.loads((ROOT / "native/Cargo.toml").read_text())

    assert crate["package"]["version"] == __version__
    for table in ("dependencies", "dev-dependencies"):
        for one in crate[table].values():
            assert (one if isinstance(one, str) else one["version"]).startswith("=")
