"""Call the service of a request: parse, serve, render its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn
from uuid import uuid4

from docgraph.auth.authenticate import AuthenticateStage
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Parsed
from docgraph.exchange.errors import (
    InternalError,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    RequestError,
    StoreError,
    Unauthenticated,
)
from docgraph.exchange.markup import MEDIA_TYPE
from docgraph.observe import emit
from docgraph.observe.engine_events import LoadShed, QueryFailed
from docgraph.observe.events import RequestFailed
from docgraph.observe.text import render_cause
from docgraph.plugins.kinds import Service
from docgraph.runtime import allocations
from docgraph.runtime.allocations import explain_shortage
from docgraph.server.html_pages import build_refusal_page, is_navigation
from docgraph.server.interception import check_answer
from docgraph.server.respond import phrase_of, preflight_headers
from docgraph.server.routes import Route, takes_entries

_SERVER_ERROR = 500


def parse(exchange: Exchange, route: Route | None) -> Parsed | None:
    """Run stage 3: return the parsed request, or its rejection."""
    if exchange.is_entry and not takes_entries(route):  # rejected after authorization, as always
        return Parsed(RequestError("a batch takes requests for documents of the REST API only"))
    if route is None or exchange.request.method == "OPTIONS":
        return None
    try:
        parsed = route.service.parse(exchange)
        is_usual = parsed is None or isinstance(parsed, Parsed)
        return parsed if is_usual else _reject_parsed(parsed, route.service)
    except DocgraphError as error:
        return Parsed(error)
    except MemoryError:
        return Parsed(explain_shortage())
    except Exception as error:
        return Parsed(hide_error(error, exchange))


async def serve(exchange: Exchange, route: Route | None) -> Answer:
    """Run stage 6: methods that are the same for every service, then the service itself."""
    if route is None:
        raise NotFound("nothing is served at this path")
    method, methods = exchange.request.method, route.service.allowed_methods(exchange)
    if method == "OPTIONS" or method not in methods:
        allowed = _complete(methods)
        if method == "OPTIONS":
            own_headers = getattr(route.service, "accepted_headers", ())
            preflight = preflight_headers(allowed, own_headers)
            return Body(200, headers=[("Allow", ", ".join(allowed)), *preflight])
        if method not in allowed:
            raise MethodNotAllowed(method, allowed)
    if exchange.parsed is not None and exchange.parsed.refusal is not None:
        raise exchange.parsed.refusal
    if exchange.request.query_string:
        _ = exchange.request.query  # its limits apply even if the service does not read it
    return check_answer(await route.service.handle(exchange), route.service)


def _reject_parsed(parsed: object, service: Service) -> NoReturn:
    raise TypeError(
        f"`parse` of the service {service.name!r} returned a {type(parsed).__name__}, "
        "which is neither None nor a Parsed"
    )


def _complete(methods: Sequence[str]) -> tuple[str, ...]:
    """Return the methods of a service; HEAD is added to GET, and OPTIONS always."""
    head = ("HEAD",) if "GET" in methods and "HEAD" not in methods else ()
    return (*methods, *head, "OPTIONS")


def render(
    error: BaseException, exchange: Exchange, route: Route | None, authenticator: AuthenticateStage
) -> Body:
    """Render any error as an answer, in the format of the service."""
    if isinstance(error, Unauthenticated) and not error.headers:
        fields, error = error.fields, authenticator.challenge(exchange)
        error.fields = fields
    if isinstance(error, MemoryError):
        error = explain_shortage()
    if isinstance(error, Overloaded):
        emit(LoadShed(error.bound))
    elif isinstance(error, DocgraphError):
        _report(error, exchange)
    else:
        error = hide_error(error, exchange)
    exchange.error = _release(error).code
    body = route.service.render_error(error) if route else None
    if route is not None and body is not None:
        check_answer(body, route.service)
    page = None if route is None else route.find_page(exchange.request)
    return render_refusal(error, exchange, body, page)


def _report(error: DocgraphError, exchange: Exchange) -> None:
    """Report a database failure: details to the log, an id to the caller.

    Also when a service reports it with its own text and status.
    """
    cause = error.__cause__
    failure = error if isinstance(error, StoreError) else cause
    is_failure = isinstance(failure, StoreError) and failure.status >= _SERVER_ERROR
    if failure is None or not is_failure or error.details is not None:
        return
    id, reason = uuid4().hex[:12], render_cause(failure.__cause__ or failure)
    emit(QueryFailed(id, exchange.id, error.code, reason, exchange.app))
    error.details = {"id": id}


def _release(error: DocgraphError) -> DocgraphError:
    """Return the error without its traceback, whose frames refer to the request.

    The request refers to the rejection: such a cycle would wait for the garbage collector.
    """
    error.__traceback__ = None
    if error.__cause__ is None:
        error.__context__ = None
    return error


def hide_error(
    error: BaseException, exchange: Exchange, message: str = "the request could not be handled"
) -> InternalError:
    """Report an internal error: details to the log, an id to the caller."""
    id, request = uuid4().hex[:12], exchange.request
    emit(RequestFailed(id, exchange.id, error, request.method, request.path, exchange.service))
    return InternalError(message, details={"id": id})


def render_refusal(
    error: DocgraphError, exchange: Exchange, given: Body | None = None, console: str | None = None
) -> Body:
    """Return the response to a rejected request; `given` is the body in the service's format.

    `console` is the path of the page in which people can do what was tried.
    """
    body = build_error_body(error) if given is None else given
    if body.media_type == MEDIA_TYPE or not is_navigation(exchange.request):
        return body
    return build_refusal_page(error, exchange, body, console)


def build_error_body(error: DocgraphError) -> Body:
    """Build the general format of an error."""
    content: dict[str, Any] = {
        "http status code": error.status,
        "http status description": phrase_of(error.status),
        "message": error.message.replace('"', "'").replace("\t", "  "),
        "code": error.code,
        **error.fields,
    }
    if error.hint is not None:
        content["hint"] = error.hint
    if error.details is not None:
        content["details"] = error.details
    return Body(
        error.status, allocations.dumps(content, str), "application/json", list(error.headers)
    )
