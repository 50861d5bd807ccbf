"""Install the wheel of `dist` in a clean environment, and run it from an empty directory.

    python tools/dist_check.py [--borrow] [--optional] [--draft]

The packages that docgraph needs come from the registry; with `--borrow` they are those of the
environment that this runs in, which takes a few seconds and no network. `--optional` succeeds
where there is no wheel. `--draft` accepts empty addresses in release.toml, which a release must
not have.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.message import Message
from email.parser import Parser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.dist import compute_sum
from tools.release import Release, read_release

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PATIENCE = 120  # seconds for each step
NOBODY = "mongodb://127.0.0.1:9/"  # a server says that it is ready also without its database
WHEEL_HAS = ("docgraph/console/static/manifest.json", "docgraph/examples/chat/page.html")
SOURCE_HAS = (
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "conftest.py",
    "native/Cargo.toml",
    WHEEL_HAS[0],
)


class Wrong(Exception):
    """What somebody who installs it would run into."""


def check_contents(wheel: Path, source: Path, *, is_draft: bool) -> None:
    """Both hold what they have to, and the description is one for an index."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(packed.read(described).decode())
    check_metadata(metadata)
    if not is_draft:
        check_release(read_release())
    require(WHEEL_HAS, names, wheel)
    with tarfile.open(source) as tree:
        require(SOURCE_HAS, tree.getnames(), source)


def require(wanted: tuple[str, ...], names: list[str], package: Path) -> None:
    """Every wanted file is there."""
    missing = [one for one in wanted if not any(name.endswith(one) for name in names)]
    if missing:
        raise Wrong(f"{package.name} lacks {', '.join(missing)}")


def check_release(release: Release) -> None:
    """Reject a release whose owner has not filled in every address."""
    if release.missing:
        raise Wrong(f"release.toml has no {', '.join(release.missing)}: fill them in")


def check_sums(dist: Path) -> None:
    """Every file has its SHA-256 in the list; a list without a signature is named."""
    sums = dist / "SHA256SUMS"
    if not sums.is_file():
        raise Wrong("SHA256SUMS is missing: make dist")
    lines = (line.partition("  ") for line in sums.read_text().splitlines())
    listed = {name: digest for digest, _, name in lines}
    files = {path.name for path in dist.iterdir() if not path.name.startswith("SHA256SUMS")}
    changed = {name for name in files if listed.get(name) != compute_sum(dist / name)}
    if changed or files != listed.keys():
        wrong = ", ".join(sorted(changed | (files ^ listed.keys())))
        raise Wrong(f"SHA256SUMS does not fit {wrong}: make dist")
    if not (dist / "SHA256SUMS.asc").is_file():
        print("SHA256SUMS is not signed: make dist SIGN_KEY=<key of gpg>", file=sys.stderr)


def check_native(dist: Path) -> None:
    """A wheel of the native lane is one for every Python from 3.11 on."""
    for wheel in dist.glob("docgraph_native-*.whl"):
        if "-cp311-abi3-" not in wheel.name:
            raise Wrong(f"{wheel.name} is for one version of Python, not for abi3")


def check_metadata(metadata: Message) -> None:
    """The description is a text that an index can show."""
    if metadata["Description-Content-Type"] != "text/markdown":
        raise Wrong("the description is not Markdown")
    text = str(metadata.get_payload())
    if not text.startswith("# docgraph"):
        raise Wrong("the description is not the README")
    if found := re.search(r"\]\((?!https?:)[^)]*\)|^<\w+", text, re.MULTILINE):
        raise Wrong(f"the description has what an index cannot show: {found[0]}")


def install(wheels: Sequence[Path], place: Path, *, borrow: bool) -> Path:
    """A new environment with the wheels in it, the core first; the directory of its programs."""
    environment = place / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], place)
    programs = environment / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet"]
    pip.append("--disable-pip-version-check")
    if borrow:
        (packages,) = environment.glob("lib/python*/site-packages")
        ours = next(one for one in sys.path if one.endswith("site-packages"))
        (packages / "borrowed.pth").write_text(f"{ours}\n")
        run([*pip, "--no-deps", "--no-index", *map(str, wheels)], place)
    else:
        run(
            [
                *pip,
                "-c",
                str(ROOT / "constraints.txt"),
                f"{wheels[0]}[embedded]",
                *map(str, wheels[1:]),
            ],
            place,
        )
    return programs


def run(command: list[str], place: Path) -> str:
    """What a program prints; raises `Wrong` with its last words when it fails."""
    done = subprocess.run(
        command,
        cwd=place,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Wrong(f"{' '.join(command[:4])} … ended with {done.returncode}: {' '.join(said)}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Ours without what would lead Python or docgraph back to this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCGRAPH")}
    return {name: kept[name] for name in kept if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def check_commands(programs: Path, place: Path) -> None:
    """The commands that need no server."""
    run([str(programs / "docgraph"), "version"], place)
    run([str(programs / "docgraph"), "apps", "infer", "--help"], place)
    imported = "import docgraph; print(docgraph.__file__)"
    where = run([str(programs / "python"), "-c", imported], place)
    if not where.startswith(str(programs.parent)):
        raise Wrong(f"docgraph was imported from {where.strip()}")


@contextmanager
def serving(programs: Path, place: Path, *arguments: str) -> Iterator[tuple[str, Path]]:
    """Start a server in a directory; yield its address and the file with its messages."""
    messages = place / "messages.log"
    with (
        messages.open("w") as written,
        subprocess.Popen(
            [str(programs / "docgraph"), *arguments, "--port=0"],
            cwd=place,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            words = process.stdout.readline().split()
            if len(words) < len(("docgraph", "ready", "URL")):
                raise Wrong(f"the server is not ready: {messages.read_text()[-500:]}")
            yield words[2], messages
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE)
    if code:
        raise Wrong(f"the server ended with {code}")


def check_server(programs: Path, place: Path) -> None:
    """A server starts, answers, has the console, and stops."""
    options = f"--set=/mclient/connection-string={NOBODY}"
    with serving(programs, place, "serve", options) as (address, _):
        ask(f"{address}/ping")
        page = ask(f"{address}/console")
        script = re.search(r'<script type="module" src="([^"]+)"', page)
        if script is None:
            raise Wrong("the page of the console has no script")
        ask(f"{address}{script[1]}")


def check_examples(programs: Path, place: Path) -> None:
    """Every example is copied into an empty directory, loaded and served by `docgraph` alone."""
    home = place / "examples"
    home.mkdir()
    command = [str(programs / "docgraph"), "examples"]
    names = [line.split()[0] for line in run(command, home).splitlines()]
    with serving(programs, home, "demo") as (address, messages):
        found = re.search(r"password +(\S+)", messages.read_text())
        if found is None:
            raise Wrong("the demo has not printed a password")
        for name in names:
            run([*command, name], home)
            if any((home / name / app).exists() for app in ("app.json", "app.yml", "app")):
                run([*command, name, "--load"], home)
            for query in sorted((home / name).glob("queries/*.graphql")):
                check_query(address, found[1], query)
    plugins = ("--set=/core/plugins-directory=.", "--set=/fullAuthorizer/enabled=true")
    open_to_all = "--set=/fullAuthorizer/authentication-required=false"
    with serving(programs, home / "plugins", "serve", *plugins, open_to_all) as (address, _):
        ask(f"{address}/greeter?name=Ada")
    for name in ("chat", "desk"):
        with serving(programs, home / name, "serve", "--config=docgraph.yml") as (address, _):
            ask(f"{address}/{name}")
    with serving(programs, home / "agents", "serve", "--config=docgraph.yml") as (address, _):
        ask(f"{address}/ping")
    run([str(programs / "docgraph"), "apps", "test", "desk"], home)


def check_query(address: str, password: str, query: Path) -> None:
    """The answer to a query of an example is the one in the file next to it."""
    example = query.parents[1].name
    path = {"movies": "v1/movies", "shop": "customers"}.get(example, example)
    reply = ask(f"{address}/graphql/{path}", query.read_bytes(), f"admin:{password}")
    if json.loads(reply) != json.loads(query.with_suffix(".json").read_text()):
        raise Wrong(f"{example}/queries/{query.name} has another answer: {reply[:500]}")


def ask(address: str, query: bytes | None = None, credentials: str | None = None) -> str:
    """Return the text at an address, or the answer to a query; never through a proxy."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(address, query)  # noqa: S310 - the address is ours
    request.add_header("Content-Type", "application/graphql")
    if credentials is not None:
        encoded = base64.b64encode(credentials.encode()).decode()
        request.add_header("Authorization", f"Basic {encoded}")
    with direct.open(request, timeout=PATIENCE) as reply:
        return str(reply.read().decode())


def main(arguments: list[str]) -> int:
    """Everything, in a directory that is gone afterwards."""
    found = [*DIST.glob("docgraph-*.whl"), *DIST.glob("docgraph-*.tar.gz")]
    if len(found) != len(("wheel", "source")):
        print("there is no package to check: make dist", file=sys.stderr)
        return 0 if "--optional" in arguments else 1
    try:
        check_sums(DIST)
        check_native(DIST)
        check_contents(*found, is_draft="--draft" in arguments)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name, "empty")
            place.mkdir()
            added = sorted(DIST.glob("docgraph_[!n]*.whl"))  # not the native lane
            programs = install([found[0], *added], Path(name), borrow="--borrow" in arguments)
            check_commands(programs, place)
            check_server(programs, place)
            check_examples(programs, Path(name))
    except (Wrong, OSError) as error:
        print(f"the package is not good: {error}", file=sys.stderr)
        return 1
    print(f"{found[0].name} installs, and runs from an empty directory")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
