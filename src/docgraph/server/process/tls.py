"""TLS certificate and key of the https listener: load them, and explain errors."""

from __future__ import annotations

import ssl
from pathlib import Path

from docgraph.exchange import StartupError
from docgraph.server.sections import HttpsListener

__all__ = ["build_context"]

# Forward secrecy and authenticated encryption only; TLS 1.3 has nothing else.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


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
    return context


def _check_readable(path: str, name: str) -> str:
    try:
        with Path(path).open("rb"):
            return path
    except OSError as error:
        raise StartupError(
            f"cannot read {path}: {(error.strerror or 'unknown error').lower()}",
            hint=f"/https-listener/{name} names it",
        ) from None


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
