"""The libraries that are lent to a mongod: links, the search path, and when there are none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from docgraph.embedded import mongod_setup as embedded_libraries
from docgraph.embedded.mongod_setup import build_environment, find_pycurl_libraries

FILES = {
    "libcurl.so.4": "libcurl-330bcbb6.so.4.8.0",
    "libssl.so.3": "libssl-8b66dd34.so.3",
    "libcrypto.so.3": "libcrypto-fa202293.so.3",
}
OTHERS = ["libssh2-c5c93677.so.1.0.1", "libngtcp2_crypto_ossl-741c35a5.so.0.3.1"]


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the wheel of pycurl brings, as far as the names go."""
    place = tmp_path / "site-packages" / "pycurl.libs"
    place.mkdir(parents=True)
    for name in [*FILES.values(), *OTHERS]:
        (place / name).touch()
    monkeypatch.setattr(embedded_libraries, "find_pycurl_libraries", lambda: place)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return place


def read_links(directory: Path) -> dict[str, Path]:
    return {link.name: link.readlink() for link in directory.iterdir()}


def test_links_give_the_libraries_the_names_that_are_asked_for(
    libraries: Path, tmp_path: Path
) -> None:
    environment = build_environment(tmp_path / "lib")

    assert environment is not None
    assert environment["LD_LIBRARY_PATH"] == f"{tmp_path / 'lib'}:{libraries}"
    assert read_links(tmp_path / "lib") == {name: libraries / FILES[name] for name in FILES}


def test_only_the_search_path_differs_from_our_environment(libraries: Path, tmp_path: Path) -> None:
    environment = build_environment(tmp_path / "lib")

    assert environment is not None
    assert {**environment, "LD_LIBRARY_PATH": ""} == {**os.environ, "LD_LIBRARY_PATH": ""}
    assert "LD_LIBRARY_PATH" not in os.environ


def test_search_path_of_the_user_is_kept_behind(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/a:/opt/b")

    environment = build_environment(tmp_path / "lib")

    assert environment is not None
    assert environment["LD_LIBRARY_PATH"] == f"{tmp_path / 'lib'}:{libraries}:/opt/a:/opt/b"


def test_directory_of_links_is_for_its_owner_alone(libraries: Path, tmp_path: Path) -> None:
    build_environment(tmp_path / "lib")

    assert (tmp_path / "lib").stat().st_mode & 0o777 == 0o700


def test_links_of_an_earlier_installation_are_replaced(libraries: Path, tmp_path: Path) -> None:
    links = tmp_path / "lib"
    links.mkdir()
    (links / "libcurl.so.4").symlink_to("/gone/libcurl-0.so.4")
    (links / "libssl.so.3").write_text("no link at all")

    build_environment(links)

    assert read_links(links) == {name: libraries / FILES[name] for name in FILES}


def test_draft_of_a_link_left_over_does_not_hinder(libraries: Path, tmp_path: Path) -> None:
    links = tmp_path / "lib"
    links.mkdir()
    (links / f".libcurl.so.4.{os.getpid()}").symlink_to("/gone")

    assert build_environment(links) is not None
    assert read_links(links).keys() == FILES.keys()


@pytest.mark.parametrize("name", FILES.values())
def test_nothing_is_lent_if_one_of_the_libraries_is_not_there(
    libraries: Path, tmp_path: Path, name: str
) -> None:
    """Half of them would make two versions of OpenSSL meet in one process."""
    (libraries / name).unlink()

    assert build_environment(tmp_path / "lib") is None
    assert not (tmp_path / "lib").exists()


@pytest.mark.parametrize("name", ["a:b", "a;b", "$ORIGIN"])
def test_nothing_is_lent_where_the_search_path_cannot_name_the_directory(
    libraries: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()

    assert build_environment(tmp_path / name / "lib") is None


def test_nothing_is_lent_without_pycurl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert find_pycurl_libraries() is None
    assert build_environment(tmp_path / "lib") is None


def test_pycurl_built_from_source_has_nothing_to_lend(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    metadata = tmp_path / "pycurl-7.49.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pycurl\nVersion: 7.49.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert find_pycurl_libraries() is None
    (tmp_path / "pycurl.libs").mkdir()
    assert find_pycurl_libraries() == (
        tmp_path / "pycurl.libs" if sys.platform == "linux" else None
    )
