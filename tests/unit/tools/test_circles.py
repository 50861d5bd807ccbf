"""Circles of imports and crowded folders are found wherever they hide."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.circles import find_circles, find_crowded, find_imports


def write(folder: Path, **files: str) -> Path:
    """A package `house` with these modules; `__` in a name stands for a folder."""
    package = folder / "house"
    for name, text in files.items():
        path = package / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    return package


@pytest.mark.parametrize(
    "back",
    [
        "from house.rooms.hall import door",
        "from house.rooms import hall",
        "import house.rooms.hall",
        "from .rooms.hall import door",
        "def f():\n    from house.rooms.hall import door",
        "import typing\nif typing.TYPE_CHECKING:\n    from house.rooms.hall import door",
    ],
    ids=["names", "module", "plain", "relative", "in-a-function", "for-types-only"],
)
def test_two_modules_that_import_each_other_are_a_circle(tmp_path: Path, back: str) -> None:
    package = write(tmp_path, garden=back, rooms__hall="from house.garden import tree")
    (circle,) = find_circles(find_imports(package))
    assert set(circle) == {"house.garden", "house.rooms.hall"}
    assert circle[0] == circle[-1]


def test_a_circle_is_shown_in_the_order_of_imports() -> None:
    (circle,) = find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert "".join(circle) in {"abca", "bcab", "cabc"}


def test_circles_that_share_no_module_are_all_found() -> None:
    circles = find_circles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}, "e": {"a", "c"}})
    assert sorted("".join(sorted(set(circle))) for circle in circles) == ["ab", "cd"]


def test_imports_in_one_direction_are_no_circle(tmp_path: Path) -> None:
    package = write(
        tmp_path, a="from house.b import x\nimport house.c", b="from house import c", c="import os"
    )
    imports = find_imports(package)
    assert imports["house.a"] == {"house.b", "house.c"}
    assert find_circles(imports) == []


def test_a_folder_with_more_files_than_the_budget_is_reported(tmp_path: Path) -> None:
    package = write(tmp_path, a="", b="", rooms__a="", rooms__b="", rooms__c="")
    assert list(find_crowded(package, 3)) == ["house.rooms: 4 files, the budget is 3"]
