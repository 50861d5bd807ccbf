"""TLS certificate and key of the https listener: load them, explain errors, report the end."""

from __future__ import annotations

import mmap
import os
import ssl
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import IO, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from docgraph.exchange import StartupError
from docgraph.observe import emit
from docgraph.observe.engine_events import (
    CertificateAge,
    CertificateExpiring,
    CertificateLoaded,
    ReloadFailed,
)
from docgraph.server.sections import HttpsListener

# Forward secrecy and authenticated encryption only; TLS 1.3 has nothing else.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_DAY: Final = 86_400.0  # seconds
_SOON: Final = 14 * _DAY
_SOON_SHARE: Final = 0.25  # of its lifetime, for certificates that live for days only
_DIGEST: Final = 32  # bytes of SHA-256
_LENGTH: Final = 4  # bytes


class Validity(NamedTuple):
    """When a certificate begins and ends to be valid, in seconds since the epoch."""

    since: float
    until: float

    @property
    def seconds_left(self) -> float:
        """Seconds until the end, negative after it."""
        return self.until - time.time()

    @property
    def is_over(self) -> bool:
        return self.seconds_left <= 0

    @property
    def ends_soon(self) -> bool:
        """Whether it should have been renewed: two weeks are left, or a quarter of its lifetime."""
        return self.seconds_left < min(_SOON, _SOON_SHARE * (self.until - self.since))

    def describe_end(self) -> str:
        """Return the end in the form of the log."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.until))


class SharedPair:
    """The last valid pair, in memory that forked workers share.

    A worker that is replaced starts with it while the files are invalid. It is not stored in a
    file: it contains the private key.
    """

    def __init__(self, size: int = 256 * 1024) -> None:
        self._memory = mmap.mmap(-1, size)

    def store(self, pem: bytes) -> None:
        """Keep the pair; a very long chain is not kept."""
        content = len(pem).to_bytes(_LENGTH) + pem
        if len(content) + _DIGEST <= len(self._memory):
            self._memory[: len(content) + _DIGEST] = sha256(content).digest() + content

    def read(self) -> bytes | None:
        """Return the pair; None if there is none, or another worker is just writing it."""
        digest, rest = self._memory[:_DIGEST], self._memory[_DIGEST:]
        content = rest[: _LENGTH + int.from_bytes(rest[:_LENGTH])]
        return content[_LENGTH:] if sha256(content).digest() == digest else None


class Certificate:
    """The latest valid pair of certificate and key; new connections get it."""

    def __init__(self, listener: HttpsListener, shared: SharedPair | None = None) -> None:
        self._listener = listener
        self._shared = shared
        self._stamp = self._read_stamp()
        self._warned = -inf
        self.validity = Validity(0, 0)
        try:
            self._current, pem = build_context(listener), _read_pair(listener)
        except StartupError as error:
            kept = shared.read() if shared is not None else None
            if kept is None:
                raise
            self._current, pem = _build_context_of(kept), kept
            emit(ReloadFailed("certificate", error.message))
        self._keep(pem)
        self.context = self._current
        # Called for each handshake. The context that the server listens with cannot be replaced,
        # and loading an invalid pair into it would leave it without any.
        self.context.sni_callback = self._choose

    def check(self, *, is_forced: bool = False) -> None:
        """Load the files if they have changed; an invalid pair is reported and not used."""
        stamp = self._read_stamp()
        if stamp == self._stamp and not is_forced:
            return
        try:
            fresh, pem = build_context(self._listener), _read_pair(self._listener)
            fingerprint = _read_leaf(pem).fingerprint(SHA256()).hex()
        except StartupError as error:
            self._stamp = stamp
            emit(ReloadFailed("certificate", error.message))
            return
        if self._read_stamp() != stamp:
            return  # they are being written: the next check reads all of it
        if stamp != self._stamp:
            emit(CertificateLoaded(str(self._listener.certificate), fingerprint))
        self._stamp, self._current = stamp, fresh
        self._keep(pem)

    def report_age(self) -> None:
        """Report the seconds left; once a day also an end that is near, or past."""
        emit(CertificateAge(self.validity.seconds_left))
        if self.validity.ends_soon and time.monotonic() - self._warned >= _DAY:
            self._warned = time.monotonic()
            end = self.validity.describe_end()
            path = str(self._listener.certificate)
            emit(CertificateExpiring(path, end, self.validity.is_over))

    def _keep(self, pem: bytes) -> None:
        validity = _read_validity(pem)
        if validity != self.validity:
            self.validity, self._warned = validity, -inf
        if self._shared is not None:
            self._shared.store(pem)

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _read_stamp(self) -> Sequence[object]:
        """Return a stamp that changes with the files, also behind symbolic links."""
        return [_stamp_file(str(path)) for path in (self._listener.certificate, self._listener.key)]


def _stamp_file(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def build_context(listener: HttpsListener) -> ssl.SSLContext:
    """Build the context for the configured certificate and key; raises `StartupError`."""
    # The section rejects an enabled listener without them.
    certificate = _check_readable(str(listener.certificate), "certificate")
    key = _check_readable(str(listener.key), "key")
    context = _new_context()
    protected = False

    def read_password() -> str:  # otherwise OpenSSL would prompt on the terminal
        nonlocal protected
        protected = True
        return ""

    try:
        context.load_cert_chain(certificate, key, password=read_password)
    except ssl.SSLError as error:
        raise _explain(error, certificate, key, protected=protected) from None
    except OSError as error:  # removed since the check
        raise _explain_unreadable(error, f"{certificate} or {key}") from None
    return context


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _build_context_of(pem: bytes) -> ssl.SSLContext:
    """Build the context for a pair that was valid; OpenSSL reads files only.

    Raises `StartupError` if the files were replaced one after the other while it was read.
    """
    context = _new_context()
    with _open_in_memory() as file:
        file.write(pem)
        file.flush()
        file.seek(0)
        try:
            context.load_cert_chain(f"/dev/fd/{file.fileno()}")
        except OSError:  # also `SSLError`
            raise StartupError("certificate and key do not belong together") from None
    return context


def _open_in_memory() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("docgraph-tls"), "w+b")
    return tempfile.TemporaryFile()  # macOS


def _read_pair(listener: HttpsListener) -> bytes:
    try:
        paths = (str(listener.certificate), str(listener.key))
        return b"\n".join(Path(path).read_bytes() for path in paths)
    except OSError as error:
        raise _explain_unreadable(error, str(error.filename)) from None


def _read_leaf(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:  # replaced since it was loaded
        raise StartupError("the certificate is not in PEM form") from None


def _read_validity(pem: bytes) -> Validity:
    leaf = _read_leaf(pem)
    return Validity(leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp())


def find_validity(listener: HttpsListener) -> Validity:
    """Return when the configured certificate is valid; raises `StartupError`."""
    return _read_validity(_read_pair(listener))


def _explain_unreadable(error: OSError, path: str, hint: str | None = None) -> StartupError:
    reason = (error.strerror or "unknown error").lower()
    return StartupError(f"cannot read {path}: {reason}", hint=hint)


def _check_readable(path: str, name: str) -> str:
    try:
        with Path(path).open("rb"):
            return path
    except OSError as error:
        raise _explain_unreadable(error, path, f"/https-listener/{name} names it") from None


def _explain(error: ssl.SSLError, certificate: str, key: str, *, protected: bool) -> StartupError:
    if protected:
        return StartupError(
            f"the private key {key} is protected by a password",
            hint="store it without one, readable by the server's user only",
        )
    if error.reason == "KEY_VALUES_MISMATCH":
        return StartupError(f"the private key {key} does not belong to {certificate}")
    if _is_certificate(certificate):
        return StartupError(f"{key} is not a private key in PEM form")
    return StartupError(f"{certificate} is not a certificate in PEM form")


def _is_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return False
    return True
