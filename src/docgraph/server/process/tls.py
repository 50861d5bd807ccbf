"""TLS certificate and key of the https listener: load them, and explain errors."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from docgraph.exchange import StartupError
from docgraph.observe import emit
from docgraph.observe.engine_events import CertificateLoaded, ReloadFailed
from docgraph.server.sections import HttpsListener

# Forward secrecy and authenticated encryption only; TLS 1.3 has nothing else.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Certificate:
    """The latest valid pair of certificate and key; new connections get it."""

    def __init__(self, listener: HttpsListener) -> None:
        self._listener = listener
        self._stamp = self._read_stamp()
        self.context = self._current = build_context(listener)
        # Called for each handshake. The context that the server listens with cannot be replaced,
        # and loading an invalid pair into it would leave it without any.
        self.context.sni_callback = self._choose

    def check(self, *, is_forced: bool = False) -> None:
        """Load the files if they have changed; an invalid pair is reported and not used."""
        stamp = self._read_stamp()
        if stamp == self._stamp and not is_forced:
            return
        try:
            fresh = build_context(self._listener)
            fingerprint = _read_fingerprint(str(self._listener.certificate))
        except StartupError as error:
            self._stamp = stamp
            emit(ReloadFailed("certificate", error.message))
            return
        if self._read_stamp() != stamp:
            return  # they are being written: the next check reads all of it
        if stamp != self._stamp:
            emit(CertificateLoaded(str(self._listener.certificate), fingerprint))
        self._stamp, self._current = stamp, fresh

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _read_stamp(self) -> Sequence[object]:
        """Return a stamp that changes with the files, also behind symbolic links."""
        return [_stamp_file(str(path)) for path in (self._listener.certificate, self._listener.key)]


def _stamp_file(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def build_context(listener: HttpsListener) -> ssl.SSLContext:
    """Build the context for the configured certificate and key; raises `StartupError`."""
    # The section rejects an enabled listener without them.
    certificate = _check_readable(str(listener.certificate), "certificate")
    key = _check_readable(str(listener.key), "key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
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


def _read_fingerprint(path: str) -> str:
    """Return the SHA-256 of the first certificate in a file, as other tools show it."""
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace")
        begin, end = text.index(_BEGIN), text.index(_END) + len(_END)
        return sha256(ssl.PEM_cert_to_DER_cert(text[begin:end])).hexdigest()
    except OSError as error:
        raise _explain_unreadable(error, path) from None
    except ValueError:  # replaced since it was loaded
        raise StartupError(f"{path} is not a certificate in PEM form") from None


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
