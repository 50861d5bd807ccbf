"""`docgraph examples`: the bundled examples, to try, to copy, and for deployment."""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path

import click

from docgraph.exchange import StartupError

_PACKAGE = Path(__file__).parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_MARKUP = re.compile(r"`|\]\([^)]*\)|\[")
_END = re.compile(r"[:.](?:\s|$)")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)[^)]*\)")
_LEFT = shutil.ignore_patterns("__pycache__", "node_modules")


@click.command()
@click.argument("name", required=False)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
def examples(name: str | None, directory: Path | None) -> None:
    """List the examples, or copy the one with this NAME into a new DIRECTORY."""
    known = _find_examples()
    if name is None:
        width = max(map(len, known))
        for one, path in known.items():
            click.echo(f"{one:{width}}  {_summarize(path)}")
        return
    if name not in known:
        raise StartupError(f"there is no example {name!r}", hint=f"there are {', '.join(known)}")
    target = directory or Path(name)
    if target.exists():
        raise StartupError(f"{target} exists", hint="name another directory")
    shutil.copytree(known[name], target, ignore=_LEFT)
    for page in target.rglob("*.md"):
        _cut_links(page, target)
    click.echo(f"{target}")


def _cut_links(page: Path, root: Path) -> None:
    """Replace links that lead out of the example, and would be broken in a copy, by names."""
    place = page.parent.relative_to(root).as_posix()

    def cut(link: re.Match[str]) -> str:
        text, address = link.groups()
        path = posixpath.normpath(posixpath.join(place, address))
        if not path.startswith("../"):
            return link[0]
        named = path.replace("../", "")
        return text if text == named else f"{text} (`{named}`)"

    text = page.read_text(encoding="utf-8")
    page.write_text(_LINK.sub(cut, text), encoding="utf-8")


def _find_examples() -> dict[str, Path]:
    """Return the directories by name: in the package, or in the checkout that it is run from."""
    packed = _PACKAGE / "examples"
    places = [packed] if packed.is_dir() else [_CHECKOUT / "examples"]
    found = {one.name: one for place in places for one in sorted(place.glob("*/"))}
    if not packed.is_dir():
        found["deploy"] = _CHECKOUT / "deploy"
    return {name: path for name, path in sorted(found.items()) if (path / "README.md").is_file()}


def _summarize(path: Path) -> str:
    """Return the first sentence of its README below the heading, up to a full stop or colon."""
    _, text, *_ = (path / "README.md").read_text(encoding="utf-8").split("\n\n")
    plain = _MARKUP.sub("", " ".join(text.split()))
    return _END.split(plain, maxsplit=1)[0]
