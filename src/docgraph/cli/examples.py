"""`docgraph examples`: list, copy and load the bundled examples, and files for deployment."""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import notice
from docgraph.config import ConfigSources
from docgraph.exchange import Document, StartupError

if TYPE_CHECKING:
    from docgraph.server.app import Docgraph

_PACKAGE = Path(__file__).parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_MARKUP = re.compile(r"`|\]\([^)]*\)|\[")
_END = re.compile(r"[:.](?:\s|$)")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)[^)]*\)")
_LEFT = shutil.ignore_patterns("__pycache__", "node_modules")
# The definition of an example is a file, a directory, or next to its README.
_APPS = ("app.json", "app", "app.yml")


def _complete_name(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=_summarize(path))
        for name, path in _find_examples().items()
        if name.startswith(typed)
    ]


@click.command()
@click.argument("name", required=False, shell_complete=_complete_name)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--load", is_flag=True, help="Load the documents, too, and apply the app.")
@configured
def examples(sources: ConfigSources, name: str | None, directory: Path | None, load: bool) -> None:
    """List the examples, or copy the one with this NAME into DIRECTORY, and load it.

    DIRECTORY is new or empty; by default it has the name of the example. With --load it may be an
    earlier copy. Loading needs a running server (`docgraph demo`), or a database of yours, and
    never changes a collection that has documents.
    """
    available = _find_examples()
    if name is None:
        width = max(map(len, available))
        for example, path in available.items():
            click.echo(f"{example:{width}}  {_summarize(path)}")
        return
    if name not in available:
        raise StartupError(
            f"there is no example {name!r}", hint=f"there are {', '.join(available)}"
        )
    if load and _find_app(available[name]) is None:
        raise StartupError(
            f"the example {name!r} has nothing to load",
            hint=f"`docgraph examples {name}` copies it; its README.md shows how to run it",
        )
    target = directory or Path(name)
    if not (load and _is_copy(available[name], target)):
        _copy(available[name], target)
        click.echo(f"{target}")
    if load:
        _load(sources, target)


def _is_copy(example: Path, target: Path) -> bool:
    """Return whether the directory has the README of the example."""
    page = target / "README.md"
    if not page.is_file():
        return False
    title, _, _ = (example / "README.md").read_text(encoding="utf-8").partition("\n")
    return page.read_text(encoding="utf-8").startswith(f"{title}\n")


def _copy(example: Path, target: Path) -> None:
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise StartupError(f"{target} is not empty", hint="name another directory")
    shutil.copytree(example, target, ignore=_LEFT, dirs_exist_ok=True)
    for page in target.rglob("*.md"):
        _cut_links(page, target)


def _find_app(example: Path) -> Path | None:
    return next((example / name for name in _APPS if (example / name).exists()), None)


def _load(sources: ConfigSources, example: Path) -> None:
    from docgraph.cli.application import work_on
    from docgraph.cli.apps import apply_paths
    from docgraph.cli.demo import DB, load_blog_data, load_documents

    definition = _find_app(example)
    if definition is None:
        raise StartupError(f"{example} has no app.json, app.yml or app directory")

    documents = _read_documents(example / "documents")

    async def load(app: Docgraph) -> None:
        if not documents:
            await load_blog_data(app.store)
        for collection, samples in documents.items():
            if await load_documents(app.store, collection, samples):
                notice(f"loaded {len(samples)} documents into {DB}.{collection}")
            else:
                notice(f"{DB}.{collection} has documents: nothing was loaded into it")

    work_on(prepare_sources(sources), load)
    apply_paths(sources, [definition])


def _read_documents(directory: Path) -> dict[str, list[Document]]:
    from docgraph.codec import decode

    return {file.stem: decode(file.read_bytes()) for file in sorted(directory.glob("*.json"))}


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
    directories = {path.name: path for place in places for path in sorted(place.glob("*/"))}
    if not packed.is_dir():
        directories["deploy"] = _CHECKOUT / "deploy"
    return {
        name: path for name, path in sorted(directories.items()) if (path / "README.md").is_file()
    }


def _summarize(path: Path) -> str:
    """Return the first sentence of its README below the heading, up to a full stop or colon."""
    _, text, *_ = (path / "README.md").read_text(encoding="utf-8").split("\n\n")
    plain = _MARKUP.sub("", " ".join(text.split()))
    return _END.split(plain, maxsplit=1)[0]
