"""Check names in `src` against the glossary (`docs/explanation/glossary.md`): one word per thing.

* The name of a class or of a type alias is used once. Only a plugin and its section may share one.
* A module name is used once, except for those that a convention repeats.
* No function begins with a retired verb, and no constant has a retired name.
* No comment is a title (`# --- …`): a module is about one thing.
* Locals that say nothing (`one`, `found`) become fewer: each folder has a budget for them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = (ROOT / "src/docgraph", *sorted(ROOT.glob("*/src/docgraph_*")))
RETIRED_VERBS: Final = re.compile(
    r"_*(tell|judge|look|note|ask|take|settle|imagine|wonder|doubt|refuse|mend|bury)(_|$)"
)
RETIRED_CONSTANTS: Final = re.compile(r"_?(MOST(_|$)|UNSAID|SOMEBODY|AT_HOME|LAST_WORDS)")
ALIAS: Final = re.compile(r"_?[A-Z]\w*[a-z]\w*")
TITLE: Final = re.compile(r"^ *# ---.*", re.MULTILINE)
# What every package may have, and the verbs that the glossary keeps.
CONVENTIONAL: Final = frozenset(
    {"__init__", "sections", "service", "command", "errors", "call"}
    | {"parse", "render", "decode", "encode", "build", "compile", "check"}
)
# A line with one of these is understood only with its function.
VAGUE_LOCALS: Final = frozenset({"one", "found", "known", "own", "there", "here"})
# How many are left, by package and folder; elsewhere there are none. The numbers only fall.
VAGUE_BUDGETS: Final = {
    "docgraph/auth": 2,
    "docgraph/config": 1,
    "docgraph/graphql": 133,
    "docgraph/observe": 1,
    "docgraph/plugins": 7,
    "docgraph/server": 3,
}
# Commands and handlers have the name of what they serve, which is a module elsewhere.
NAMED_AFTER_SUBJECT: Final = ("cli/", "commands/", "tools/", "rest/handlers/", "server/services/")


def find_flaws(sources: Path) -> Iterator[str]:
    """Every name that the glossary does not allow, with its location."""
    classes: dict[str, list[str]] = defaultdict(list)
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(sources.rglob("*.py")):
        name = path.relative_to(sources).as_posix()
        if path.stem not in CONVENTIONAL and not name.startswith(NAMED_AFTER_SUBJECT):
            modules[path.stem].append(name)
        text = path.read_text()
        yield from (f"{name}: {title.strip()} is a title" for title in TITLE.findall(text))
        tree = ast.parse(text)
        if path.name != "sections.py":
            for found in (*_find_classes(tree), *_find_aliases(tree)):
                classes[found].append(name)
        for node in ast.walk(tree):
            yield from _check_name(node, name)
    yield from _find_repeated("type", classes)
    yield from _find_repeated("module", modules)


def _find_classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _find_aliases(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Subscript() | ast.BinOp() | ast.Name()):
                if ALIAS.fullmatch(name):
                    yield name


def _check_name(node: ast.AST, path: str) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and RETIRED_VERBS.match(node.name):
        yield f"{path}:{node.lineno}: the verb of {node.name}() is retired"
    elif isinstance(node, ast.Name) and RETIRED_CONSTANTS.match(node.id):
        yield f"{path}:{node.lineno}: the name {node.id} is retired"


def _find_repeated(kind: str, found: dict[str, list[str]]) -> Iterable[str]:
    for name, paths in found.items():
        if len(paths) > 1:
            yield f"the {kind} name {name} is used for several things: {', '.join(paths)}"


def find_vague_locals(sources: Path) -> dict[str, list[str]]:
    """Return the locations of vague locals in a package, by its name and the folder in it."""
    locations: dict[str, list[str]] = defaultdict(list)
    for path in sorted(sources.rglob("*.py")):
        name = path.relative_to(sources).as_posix()
        folder = f"{sources.name}/{name.partition('/')[0]}"
        for line, local in _list_vague(ast.parse(path.read_text())):
            locations[folder].append(f"{name}:{line}: the local {local} does not say what it holds")
    return locations


def _list_vague(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each assignment and parameter; fields of classes are no locals."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {
        statement.target
        for class_ in classes
        for statement in class_.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(local, ast.Store()) | ast.arg(local) | ast.MatchAs(name=str(local)):
                if local in VAGUE_LOCALS and node not in fields:
                    yield node.lineno, local


def compare_vague_locals(
    locations: Mapping[str, list[str]], budgets: Mapping[str, int]
) -> Iterator[str]:
    """Yield each folder with more vague locals than its budget, or with fewer."""
    for folder in sorted({*locations, *budgets}):
        places, budget = locations.get(folder, []), budgets.get(folder, 0)
        if len(places) > budget:
            yield from places
            yield f"{folder}: {len(places)} vague locals, the budget is {budget}: name the thing"
        elif len(places) < budget:
            yield f"{folder}: {len(places)} vague locals, the budget is {budget}: lower it"


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    flaws = [flaw for package in PACKAGES for flaw in find_flaws(package)]
    vague = {
        folder: places
        for package in PACKAGES
        for folder, places in find_vague_locals(package).items()
    }
    flaws += compare_vague_locals(vague, VAGUE_BUDGETS)
    for flaw in flaws:
        print(flaw)
    if flaws:
        print("see docs/explanation/glossary.md for the names to use")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
