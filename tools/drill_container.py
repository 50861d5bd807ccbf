"""Carry out the Containerfile without a container engine, and run what comes out of it.

    python -m tools.drill_container [STAGE]

The tree is a minimal Debian 12 made with debootstrap, as the image of Python is one; its Python is
Debian's. Each instruction that the stage depends on is done in it, by what an engine would do. Then
the tree is mounted read-only, with a network and processes of its own, and the entry point started
as the user of the Containerfile, without capabilities: it has to say that it is ready, pass its
health check, and stop. Ends with 77 where this cannot be done, and says why.

What this does not show: that the images can be pulled, that an engine reads the file as we do, and
that `compose.yaml` starts.
"""

from __future__ import annotations

import fcntl
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from tools.containerfile import CONTAINERFILE, Instruction, Stage, read_stages
from tools.drill_bare import (
    ENTER,
    INSIDE_PATH,
    NAMESPACES,
    carried_environment,
    carry_over,
    check_means,
    copy_checkout,
    make_tree,
)

PATIENCE = 120  # seconds
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
# Those of this machine are carried over; Node reads them where it is told to.
CERTIFICATES = {"NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt"}
DROPPED = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")


class Failed(Exception):
    """What somebody who runs the container would have seen go wrong."""


class Image:
    """A tree in which stages are carried out; all of them begin with the same system."""

    def __init__(self, tree: Path, stages: dict[str, Stage]) -> None:
        self.tree = tree
        self._stages = stages
        self._done: set[int] = set()

    def carry_out(self, stage: Stage) -> None:
        """Every instruction of the stage that has not been, those of its sources before them."""
        directory = "/"
        for one in stage.instructions:
            if one.name == "WORKDIR":
                directory = one.text
                (self.tree / directory[1:]).mkdir(parents=True, exist_ok=True)
            elif id(one) not in self._done:
                self._done.add(id(one))
                self._do(one, directory)

    def _do(self, one: Instruction, directory: str) -> None:
        if one.name == "RUN":
            print(f"RUN {one.text}", flush=True)
            self._run(one.text, directory)
        elif one.name == "COPY" and one.text == ". .":
            copy_checkout(self.tree, directory)
        elif one.name == "COPY":
            origin, source, target = one.text.split()
            self.carry_out(self._stages[origin.removeprefix("--from=")])
            if source != target or not (self.tree / source[1:]).is_dir():
                raise Failed(f"COPY {one.text}: the stage has no {source}")

    def _run(self, command: str, directory: str) -> None:
        inside = ["sh", "-c", f"cd {directory} && {command}"]
        environment = {
            "PATH": INSIDE_PATH,
            "HOME": "/root",
            **CERTIFICATES,
            **carried_environment(),
        }
        done = subprocess.run(
            [*NAMESPACES, "sh", "-c", ENTER, str(self.tree), *inside], env=environment, check=False
        )
        if done.returncode:
            raise Failed(f"RUN {command} ended with {done.returncode}")


def start_command(tree: Path, stage: Stage, words: list[str]) -> list[str]:
    """What starts a program of the image as its user, with nothing of our environment."""
    user, group = stage.last("USER").text.split(":")
    variables = [one.text for one in stage.instructions if one.name == "ENV"]
    enter = ["sh", "-c", f'cd {stage.last("WORKDIR").text} && exec "$@"', "sh"]
    drop = ["setpriv", f"--reuid={user}", f"--regid={group}", *DROPPED]
    return ["chroot", str(tree), *drop, "env", "-i", *variables, *enter, *words]


def mount(tree: Path, stage: Stage) -> None:
    """As an engine would with a read-only root: /tmp and volumes can be written to."""
    user, group = stage.last("USER").text.split(":")
    volumes = [one.text for one in stage.instructions if one.name == "VOLUME"]
    mounts: list[list[str]] = [
        ["--bind", str(tree), str(tree)],
        ["-o", "remount,ro,bind", str(tree)],
        ["-t", "proc", "proc", f"{tree}/proc"],
        ["--bind", "/dev", f"{tree}/dev"],
        ["-t", "tmpfs", "tmpfs", f"{tree}/dev/shm"],  # noqa: S108 - in the tree
        ["-t", "tmpfs", "tmpfs", f"{tree}/tmp"],  # noqa: S108 - in the tree
        *(
            ["-t", "tmpfs", "-o", f"uid={user},gid={group}", "tmpfs", f"{tree}{one}"]
            for one in volumes
        ),
    ]
    for words in mounts:
        subprocess.run(["mount", *words], check=True)


def raise_loopback() -> None:
    """A new network has one, which is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def run_inside(tree: Path, stage: Stage) -> None:
    """In namespaces of our own: start, look, stop."""
    raise_loopback()
    mount(tree, stage)
    health = start_command(tree, stage, stage.last("HEALTHCHECK").words)
    words = [*stage.last("ENTRYPOINT").words, *stage.last("CMD").words]
    if stage.name != "embedded":  # there is no database here; a server is ready without it
        words += ["--set", "/mclient/connection-string=mongodb://127.0.0.1:9/"]
    start = start_command(tree, stage, words)
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        try:
            ready = server.stdout.readline().strip()
            print(ready, flush=True)
            check_running(tree, stage, server.pid, ready)
            if subprocess.run(health, timeout=PATIENCE, check=False).returncode:
                raise Failed("the health check fails beside a running server")
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(PATIENCE)
    if code:
        raise Failed(f"the server ended with {code}")
    gone = subprocess.run(health, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    if not gone.returncode:
        raise Failed("the health check passes without a server")


def check_running(tree: Path, stage: Stage, pid: int, ready: str) -> None:
    """Ready, as the right user, with a file system that nobody writes to, and with the console."""
    if not ready.startswith("docgraph ready http://"):
        raise Failed("the server did not say that it is ready")
    status = (tree / f"proc/{pid}/status").read_text()
    user = stage.last("USER").text.split(":")[0]
    if f"Uid:\t{user}\t{user}" not in status or "CapEff:\t0000000000000000" not in status:
        raise Failed("the server runs as somebody else, or with capabilities")
    try:
        (tree / "opt/docgraph/written").touch()
    except OSError as error:
        print(f"written to: {error.strerror}", flush=True)
    else:
        raise Failed("the file system can be written to")
    for path in ("/ping", "/console", *(("/health/db",) if "(" not in ready else ())):
        with urllib.request.urlopen(f"http://127.0.0.1:8080{path}", timeout=PATIENCE) as reply:
            print(f"GET {path} {reply.status}", flush=True)


def build_and_run(name: str, stages: dict[str, Stage]) -> int:
    """Build in a tree of this machine; a process in namespaces of its own runs what is built."""
    with tempfile.TemporaryDirectory(prefix="docgraph-container-") as place:
        tree = Path(place, "tree")
        make_tree(tree, Path(place, "debootstrap.log"))
        carry_over(tree)
        (tree / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        Image(tree, stages).carry_out(stages[name])
        command = [*NAMESPACES, "--net", sys.executable, __file__, name, "--inside", str(tree)]
        return subprocess.run(command, check=False).returncode


def main(arguments: list[str]) -> int:
    """The stage that is named, or else the one that is built by default."""
    stages = read_stages(CONTAINERFILE.read_text())
    name, *inside = arguments or [list(stages)[-1]]
    try:
        if inside:
            run_inside(Path(inside[1]), stages[name])
            print(f"drill_container: the stage {name} runs read-only, as its own user")
            return 0
        check_means()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        return build_and_run(name, stages)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f"drill_container failed: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
