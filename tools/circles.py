"""Circles of imports between modules, and folders with too many files.

An import counts wherever it stands: at the top, in a function, under `TYPE_CHECKING`. Prints each
circle and each crowded folder and exits with 1 when there is one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

FOLDER_FILES = 30
ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "src" / "docgraph", *sorted(ROOT.glob("*/src/docgraph_*")))


def find_imports(package: Path) -> dict[str, set[str]]:
    """Each module of a package with those modules of it that it imports, by their full names."""
    files = {_name(package, path): path for path in sorted(package.rglob("*.py"))}
    return {
        name: {
            known
            for imported in _find_imported(path, name)
            for known in [_find_module(imported, files)]
            if known is not None and known != name
        }
        for name, path in files.items()
    }


def find_circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """One circle after the other, each as its modules in order of import, the first also last.

    A circle that was found is cut at its last import, so that the next one comes to light.
    """
    left = {name: set(imported) for name, imported in imports.items()}
    circles = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = list(reversed(error.args[1]))
            circles.append(circle)
            left[circle[-2]].discard(circle[-1])
        else:
            return circles


def find_crowded(package: Path, most: int = FOLDER_FILES) -> Iterator[str]:
    """One line per folder with more Python files than `most`."""
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        count = len(list(folder.glob("*.py")))
        if count > most:
            yield f"{_name(package, folder)}: {count} files, the budget is {most}"


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _find_imported(path: Path, name: str) -> Iterator[str]:
    """The names that a file imports, whole; what follows `from` is part of them."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(package, node)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _resolve(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _find_module(imported: str, modules: Mapping[str, Path]) -> str | None:
    """The module that a name is, or else the one that it is taken from."""
    if imported in modules:
        return imported
    parent = imported.rpartition(".")[0]
    return parent if parent in modules else None


def main() -> int:
    """Check the source."""
    findings: list[str] = []
    for package in PACKAGES:
        findings += [" -> ".join(circle) for circle in find_circles(find_imports(package))]
        findings += find_crowded(package)
    print("\n".join(findings) or "no circles")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
