"""Size budgets: files and functions that outgrow them want to be two.

Prints each excess and exits with 1 when there is one. Docstrings do not count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 450
TEST_FILE_LINES = 870
FUNCTION_LINES = 60
TIGHTER = {"server/pipeline.py": 150}
ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "src" / "docgraph", *sorted(ROOT.glob("*/src/docgraph_*")))
TESTS = (ROOT / "tests", *sorted(ROOT.glob("*/tests")))


def find_excesses(path: Path, package: Path = PACKAGES[0]) -> Iterator[str]:
    """One line per file or function above its budget."""
    text = path.read_text()
    name = path.relative_to(package).as_posix()
    budget = TIGHTER.get(name, FILE_LINES)
    lines = text.count("\n")
    if lines > budget:
        yield f"{name}: {lines} lines, the budget is {budget}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = measure(node)
            if length > FUNCTION_LINES:
                place = f"{name}:{node.lineno}: {node.name}"
                yield f"{place} has {length} lines, the budget is {FUNCTION_LINES}"


def find_long_tests(directory: Path) -> Iterator[str]:
    """One line per file of tests above its budget."""
    for path in sorted(directory.rglob("*.py")):
        lines = path.read_text().count("\n")
        if lines > TEST_FILE_LINES:
            name = path.relative_to(directory.parent).as_posix()
            yield f"{name}: {lines} lines, the budget is {TEST_FILE_LINES}"


def measure(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    end = node.end_lineno or node.lineno
    length = end - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def main() -> int:
    """Check every file."""
    excesses = [
        line
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
        for line in find_excesses(path, package)
    ]
    excesses += [line for directory in TESTS for line in find_long_tests(directory)]
    print("\n".join(excesses) or "budgets kept")
    return 1 if excesses else 0


if __name__ == "__main__":
    sys.exit(main())
