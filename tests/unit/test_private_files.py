"""What docgraph writes to a disk is for its owner only, except what people ask to have as files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src/docgraph", *sorted(ROOT.glob("*/src/docgraph_*")))

# Definitions and examples, for a repository: they hold no secrets, and get the rights of its files.
FOR_PEOPLE = {
    "cli/apps/sources.py: mkdir",
    "cli/apps/sources.py: write_bytes",
    "testing/app_client.py: mkdir",
    "testing/app_client.py: write_bytes",
    "commands/infer.py: write_bytes",
    "cli/examples.py: copytree",
    "cli/examples.py: write_text",
}
# They say no rights, or cannot.
OPEN = {"write_text", "write_bytes", "touch", "makedirs", "copyfile", "copytree"}


def find_open_writes(path: Path) -> Iterator[str]:
    """Calls that make a file or a directory and leave its rights to the umask."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        named = {one.arg for one in node.keywords}
        is_open = name in OPEN or (name in ("mkdir", "mknod", "mkfifo") and "mode" not in named)
        if name == "open" and is_written(node):
            is_open = not named & {"opener", "mode"}
        elif name == "open" and (text := ast.unparse(node)).startswith("os.open("):
            is_open = "O_CREAT" in text and str(0o600) not in text
        if is_open:
            yield name


def is_written(call: ast.Call) -> bool:
    """Whether a call of `open` names a mode that makes a file, for something with a name."""
    modes = [one.value for one in call.args if isinstance(one, ast.Constant)]
    by_name = call.args and not isinstance(call.args[0], ast.Constant)
    return bool(by_name) and any(
        isinstance(one, str) and one[:1] in ("w", "x", "a") for one in modes
    )


def test_every_file_and_directory_is_made_for_its_owner_only() -> None:
    found = {
        f"{path.relative_to(package).as_posix()}: {name}"
        for package in PACKAGES
        for path in package.rglob("*.py")
        for name in find_open_writes(path)
    }
    assert found == FOR_PEOPLE | {"cli/transfer/files.py: open"}  # of a file that is open already
