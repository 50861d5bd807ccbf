"""The end of a certificate, and the last valid pair for workers that are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from docgraph.exchange import StartupError
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.engine_events import CertificateAge, CertificateExpiring
from docgraph.server.process.tls import Certificate, SharedPair, find_validity
from docgraph.server.sections import HttpsListener


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    subscribe(seen.append)
    yield seen
    unsubscribe(seen.append)


def issue(authority: trustme.CA, directory: Path, days: float, lifetime: float) -> HttpsListener:
    """A listener whose certificate has so many days left of its lifetime."""
    end = datetime.now(UTC) + timedelta(days=days)
    start = end - timedelta(days=lifetime)
    issued = authority.issue_cert("localhost", not_before=start, not_after=end)
    files = directory / "server.pem", directory / "server.key"
    files[0].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    files[1].write_bytes(issued.private_key_pem.bytes())
    return HttpsListener(enabled=True, certificate=str(files[0]), key=str(files[1]))


@pytest.mark.parametrize(
    ("days", "lifetime", "soon", "over"),
    [
        (15, 90, False, False),
        (13, 90, True, False),
        (-1, 90, True, True),
        (2, 6, False, False),  # a certificate that lives for six days is renewed every few days
        (1, 6, True, False),
    ],
)
def test_an_end_that_is_near_is_known(
    authority: trustme.CA, tmp_path: Path, days: int, lifetime: int, soon: bool, over: bool
) -> None:
    validity = find_validity(issue(authority, tmp_path, days, lifetime))
    assert (validity.ends_soon, validity.is_over) == (soon, over)
    assert validity.seconds_left == pytest.approx(days * 86_400, abs=3600)


def test_an_end_that_is_near_is_reported_once_a_day(
    authority: trustme.CA,
    tmp_path: Path,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = Certificate(issue(authority, tmp_path, 10, 90))
    now = 5.0
    monkeypatch.setattr("docgraph.server.process.tls.time.monotonic", lambda: now)
    for _ in range(2):
        for _ in range(3):
            certificate.report_age()
        now += 86_400
    warnings = [one for one in events if isinstance(one, CertificateExpiring)]
    assert [one.is_over for one in warnings] == [False, False]
    assert warnings[0].certificate == str(tmp_path / "server.pem")
    assert len([one for one in events if isinstance(one, CertificateAge)]) == 6

    issue(authority, tmp_path, -1, 90)
    certificate.check()
    certificate.report_age()
    assert [one.is_over for one in events if isinstance(one, CertificateExpiring)][2:] == [True]


def test_a_certificate_that_lasts_is_no_reason_to_warn(
    authority: trustme.CA, tmp_path: Path, events: list[Event]
) -> None:
    Certificate(issue(authority, tmp_path, 60, 90)).report_age()
    assert [type(one) for one in events] == [CertificateAge]


def test_the_last_valid_pair_replaces_files_that_are_invalid(
    authority: trustme.CA, tmp_path: Path
) -> None:
    shared = SharedPair()
    listener = issue(authority, tmp_path, 60, 90)
    Path(str(listener.key)).write_bytes(b"not a key")
    with pytest.raises(StartupError):
        Certificate(listener, shared)  # no pair was valid yet

    listener = issue(authority, tmp_path, 60, 90)
    first = Certificate(listener, shared)
    listener = issue(authority, tmp_path, 40, 90)
    first.check()
    Path(str(listener.key)).write_bytes(b"not a key")

    second = Certificate(listener, shared)
    assert second.validity == first.validity
    assert second.validity.seconds_left < 41 * 86_400


def test_a_pair_that_was_not_written_completely_is_not_used() -> None:
    shared = SharedPair(128)
    assert shared.read() is None
    shared.store(b"pair")
    assert shared.read() == b"pair"
    shared.store(b"x" * 128)  # too long: the previous one stays
    assert shared.read() == b"pair"
    shared._memory[36] ^= 1
    assert shared.read() is None
