"""Rules of the suite itself, so that one test never depends on another."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1]
PARAMETERS = "pytest.mark.parametrize"
FILES = sorted(
    one
    for tests in (TESTS, *TESTS.parent.glob("*/tests"))
    for one in tests.rglob("*.py")
    if "node_modules" not in one.parts
)


def find_functions(path: Path) -> Iterator[ast.AsyncFunctionDef]:
    """The asynchronous functions of a file that says anything of a scope."""
    text = path.read_text(encoding="utf-8")
    if "scope=" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.AsyncFunctionDef):
            yield node


def has_wide_scope(decorator: ast.expr) -> bool:
    """Whether it makes a fixture for more than a test; parameters of tests may have a scope."""
    if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) == PARAMETERS:
        return False
    return any(
        one.arg == "scope" and ast.unparse(one.value) != "'function'" for one in decorator.keywords
    )


def test_no_asynchronous_fixture_outlives_its_test() -> None:
    """It would keep the event loop, and a broken test would break all that come after it."""
    wide = [
        f"{path.relative_to(TESTS.parent)}: {function.name}"
        for path in FILES
        for function in find_functions(path)
        if any(has_wide_scope(decorator) for decorator in function.decorator_list)
    ]

    assert wide == [], "use module_application of tests/http/hosts.py"


def test_programs_are_not_started_by_an_event_loop() -> None:
    """See `run_program` of tests/programs.py; drills have no application of their own."""
    starting = "create_subprocess_" + "exec"
    files = [one for one in FILES if "drills" not in one.parts]

    assert [one.name for one in files if starting in one.read_text(encoding="utf-8")] == []


# What Playwright reads of a page in the moment in which it is asked.
MOMENTARY = {
    "all_inner_texts",
    "all_text_contents",
    "bounding_box",
    "count",
    "get_attribute",
    "inner_html",
    "inner_text",
    "input_value",
    "is_checked",
    "is_disabled",
    "is_editable",
    "is_enabled",
    "is_hidden",
    "is_visible",
    "text_content",
}


def find_momentary(path: Path) -> Iterator[str]:
    """Where a test of pages asserts what a page shows by chance at one moment."""
    text = path.read_text(encoding="utf-8")
    if "playwright" not in text:
        return
    for claim in ast.walk(ast.parse(text)):
        if isinstance(claim, ast.Assert):
            for node in ast.walk(claim.test):
                if isinstance(node, ast.Attribute) and node.attr in MOMENTARY:
                    yield f"{path.relative_to(TESTS.parent)}:{claim.lineno}: {node.attr}"


def test_what_a_page_shows_is_waited_for() -> None:
    """A page is drawn when it comes to it: on a busy machine after the next question."""
    found = [one for path in FILES for one in find_momentary(path)]

    assert found == [], "use expect of tests/programs.py"


ROOT = TESTS.parent
# Only these name the program: one starts it, the others test how it is found and called.
NAMES_MONGOD = {
    "src/docgraph/embedded/mongod_setup.py",
    "src/docgraph/embedded/mongod_process.py",
    "tests/process/test_embedded.py",
    "tests/process/test_embedded_libraries.py",
    "tests/unit/embedded/test_mongo.py",
}


def uses_name(path: Path, *names: str) -> bool:
    """Whether a file imports one of the names, or reads it as an attribute."""
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in names):
        return False  # most files; to parse them takes seconds
    used = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
    return not used.isdisjoint(names)


def test_one_function_starts_every_mongod() -> None:
    """A machine may lack libcurl, which `Node` then provides; nothing else may start a mongod."""
    files = [
        *FILES,
        *(one for top in ("src", "bench", "tools") for one in ROOT.glob(f"{top}/**/*.py")),
    ]
    found = {
        str(path.relative_to(ROOT))
        for path in files
        if "node_modules" not in path.parts and uses_name(path, "find_binary", "_packaged")
    }

    assert found <= NAMES_MONGOD, "use Node of docgraph.embedded.mongod_process"


def test_a_test_without_a_terminal_is_skipped() -> None:
    """See `open_terminal` of tests/programs.py: a machine may have no /dev/pts."""
    found = {path.name for path in FILES if uses_name(path, "openpty")}

    assert found == {"programs.py"}


def test_the_server_needs_no_shared_memory_file_system() -> None:
    """A machine may have no /dev/shm, which locks and arrays of `multiprocessing` live in."""
    found = {
        name.name
        for path in ROOT.glob("src/**/*.py")
        if "multiprocessing" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("multiprocessing")
        for name in node.names
    }

    assert found <= {"Connection", "Pipe", "recv_handle", "send_handle", "wait"}


MADE = {"build", "dist", "data", "console"}  # by tools; the console is TypeScript


def test_the_types_of_all_our_code_are_checked() -> None:
    """Every directory with Python is strictly checked; a rule has no exception for all of it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    overrides = settings.pop("overrides")
    found = {
        one.name
        for one in ROOT.iterdir()
        if one.is_dir() and not one.name.startswith(".") and one.name not in MADE
        if next(one.rglob("*.py"), None)
    }

    assert set(settings.pop("files")) >= found
    assert settings == {
        "strict": True,
        "python_version": "3.11",
        "mypy_path": ["src", "workbench/src", "migrate/src", "."],
        "explicit_package_bases": True,
        "warn_unreachable": True,
    }
    assert [set(one) for one in overrides] == [{"module", "ignore_missing_imports"}]


def test_the_modules_that_begin_first_exist() -> None:
    budgets = yaml.safe_load((TESTS / "budgets.yml").read_text())

    assert [name for name in budgets["first"] if not (TESTS.parent / name).is_file()] == []
