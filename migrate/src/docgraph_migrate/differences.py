"""Differences that no option removes: lines of the report for every installation they concern."""

from __future__ import annotations

from docgraph_migrate.convert import Conversion
from docgraph_migrate.report import ReportList

_GUIDE = "see the guide, 'What changes for your clients'"


def report_differences(conversion: Conversion) -> None:
    """Add the lines whose plugins are on."""
    _report_requests(conversion)
    _report_tokens(conversion)
    _report_answers(conversion)


def _report_requests(conversion: Conversion) -> None:
    add, config, get = conversion.add, conversion.config, conversion.get
    what = "other origins may send no credentials until cors.allow-origins lists them"
    example = "a page of https://app.example.org with fetch(…, {credentials: 'include'})"
    remedy = "list your pages in cors.allow-origins"
    add(ReportList.MORE, "cors", "CORS", what, remedy, example)
    what = "header size, number of headers and parameters, body size and connections are bounded"
    remedy = "set the options of connection-options"
    add(ReportList.MORE, "limits", "connection-options", what, remedy, "a body of 20 MiB is 413")
    if get("jwtAuthenticationMechanism", "enabled"):
        what = "a JWT without exp is refused"
        remedy = "let the issuer set exp, or set jwtAuthenticationMechanism.require-exp to false"
        add(ReportList.MORE, "jwt-exp", "jwtAuthenticationMechanism", what, remedy)
    if get("authCookieSetter", "enabled") and get("authCookieSetter", "secure"):
        what = "the cookie is set over https only; there also over http, with the attribute Secure"
        remedy = "name the proxy that ends TLS in core.trusted-proxies"
        add(ReportList.MORE, "secure-cookie", "authCookieSetter.secure", what, remedy)
    if config.on("ping"):
        what = "wrong credentials are 401 there, too; without credentials nothing changes"
        where = "/ping, /health/db, /logout"
        remedy = "send none, or the right ones"
        add(
            ReportList.MORE, "wrong-credentials", where, what, remedy, "GET /ping with an old token"
        )
    if config.on("graphql"):
        what = (
            "queries with 16 levels of fields are refused, and max-limit also bounds aggregations"
        )
        remedy = "set graphql.limits.depth and graphql.max-limit"
        add(ReportList.MORE, "query-limits", "graphql", what, remedy)
        what = "limit: 0 means graphql.default-limit; there it means no limit"
        add(
            ReportList.ANSWERS, "limit-0", "graphql", what, "leave limit out", "{ posts(limit: 0) }"
        )


def _report_tokens(conversion: Conversion) -> None:
    add, config, get = conversion.add, conversion.config, conversion.get
    if config.version > 8 and config.on("authTokenService"):  # noqa: PLR2004 - it has /token
        what = "forms are not read: grant_type=password and client_credentials are 401"
        remedy = "send the header Authorization: Basic …"
        example = "curl -d grant_type=client_credentials /token"
        add(ReportList.MORE, "token-forms", "authTokenService", what, remedy, example)
        what = "/token/redirect is 403; GET /tokens does not exist next to /token"
        add(
            ReportList.ANSWERS,
            "token-paths",
            "authTokenService",
            what,
            "use /token and /token/cookie",
        )
    if get("rndTokenManager", "enabled") and get("authTokenService", "token-headers") == "all":
        what = "every authenticated answer has Auth-Token headers and Cache-Control: no-store"
        remedy = "set authTokenService.token-headers to service: only its answers have them"
        add(ReportList.ANSWERS, "token-headers", "authTokenService", what, remedy)


def _report_answers(conversion: Conversion) -> None:
    add = conversion.add
    what = (
        "answers to bulk writes, the charset of Content-Type and the Bearer challenge differ; "
        "answers to authenticated callers have Cache-Control: no-store"
    )
    add(ReportList.ANSWERS, "headers", "REST", what, _GUIDE, "POST /coll with [{…}, {…}]")
    what = "docgraph creates a database docgraph for its own keys and marks"
    remedy = "allow the database user to create it"
    add(ReportList.ANSWERS, "database", "mclient", what, remedy, "show dbs")
