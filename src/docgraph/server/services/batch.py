"""`POST /_batch`: read the entries, authorize each of them, execute them in one transaction.

Each entry is a request of its own and passes the same stages: the interceptors of plugins, parsing
by its service, vetoers and allowers, the handler with its checks and hashing. Everything that can
be rejected without reading documents is rejected before the first write. Effects of writes
(revocations, announcements to other workers) follow the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from docgraph.access.combine import combine
from docgraph.codec import JsonMode
from docgraph.codec.request_body import reject_forgery
from docgraph.exchange import (
    Answer,
    Body,
    DataRequest,
    DocgraphError,
    Document,
    Exchange,
    ResourceType,
)
from docgraph.exchange.errors import (
    AnswerTooLarge,
    BodyError,
    NotSupported,
    RequestError,
    UnsupportedMediaType,
)
from docgraph.exchange.exchange import Admission, Transaction
from docgraph.plugins.kinds import Service
from docgraph.rest.parameters import Parameters
from docgraph.rest.sections import Mongo
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json
from docgraph.server.respond import phrase_of
from docgraph.server.sections import Batch
from docgraph.server.services.batch_entries import (
    ENTRY,
    BatchEntry,
    EntryLocation,
    at,
    build_exchange,
    find_failure,
    read_entries,
)
from docgraph.store import Store

_JSON: Final = "application/json"
_MAX_BYTES: Final = 32 * 1024 * 1024  # of the response
_TAKEN: Final = frozenset(
    {
        *((ResourceType.DOCUMENT, method) for method in ("GET", "PUT", "PATCH", "DELETE")),
        (ResourceType.COLLECTION, "POST"),
        (ResourceType.BULK, "PATCH"),
        (ResourceType.BULK, "DELETE"),
    }
)


@dataclass(slots=True)
class _AdmittedEntry:
    """An entry that was admitted; `early` is the answer of a plugin instead of its own."""

    place: EntryLocation
    exchange: Exchange
    early: Answer | None = None


class BatchService(Service):
    """Executes several requests for documents, all of them or none."""

    name: ClassVar[str] = "batch"
    description: ClassVar[str] = "executes requests for documents in one transaction"
    part_of: ClassVar[str] = "mongo"
    uri: ClassVar[str] = "/_batch"
    exact: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    Config = Batch

    def __init__(self, config: Batch, mongo: Mongo, store: Store) -> None:
        self.config = config
        self._time_limit = config.time_limit
        self.max_body_size = mongo.max_body_size
        self._store = store

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return the time limit, after which the transaction is committed or rolled back."""
        return self._time_limit

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render the general error format with the entry, also for errors without a body."""
        if ENTRY not in error.fields:
            return None
        content: Document = {
            "http status code": error.status,
            "http status description": phrase_of(error.status),
            "message": error.message,
            "code": error.code,
            **error.fields,
        }
        for name in ("hint", "details"):
            if (value := getattr(error, name)) is not None:
                content[name] = value
        headers = list(error.headers)
        return Body(error.status, allocations.dumps(content, default=str), _JSON, headers)

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the answers of all entries, in order; or raise why nothing was done."""
        entries = await self._read(exchange)
        exchange.entries = len(entries)
        if exchange.visit is not None:
            exchange.visit.count_entries(len(entries), exchange.account)
        await self._store.writes.check_transactions(exchange.deadline)
        admission = exchange.admission
        assert admission is not None  # noqa: S101 - the pipeline is it
        parts: list[_AdmittedEntry] = []
        for entry in entries:
            await asyncio.sleep(0)  # others get their turn: a filter of 8 KiB takes a while
            parts.append(await _admit(entry, exchange, admission))

        answers = await self._store.writes.transact(
            lambda transaction: _carry_out(parts, transaction, admission),
            deadline=exchange.deadline,
        )
        for index, part in enumerate(parts):
            part.exchange.answer = answers[index]
            changed = answers[index] if part.early else await admission.finish_entry(part.exchange)
            if not isinstance(changed, Body):
                raise TypeError("the answer of an entry was replaced by one that is no Body")
            changed.headers.extend(part.exchange.headers)
            answers[index] = changed
        return Body(200, _render(answers), _JSON)

    async def _read(self, exchange: Exchange) -> list[BatchEntry]:
        request = exchange.request
        content_type = request.content_type
        if not content_type:
            reject_forgery(request)
        elif content_type != _JSON:
            raise UnsupportedMediaType(f"Content-Type must be {_JSON}")
        try:
            return await request.work(read_entries, await request.get_content())
        except BodyError as error:
            raise BodyError(f"Invalid JSON. {error.message}", hint=error.hint) from None


async def _admit(entry: BatchEntry, outer: Exchange, admission: Admission) -> _AdmittedEntry:
    """Return the entry as a permitted request; raises its rejection."""
    try:
        exchange = build_exchange(entry, outer)
        early = await admission.admit_entry(exchange)
        if early is None:
            _check(exchange)
            exchange.permission = combine(outer.permission, exchange.permission)
    except DocgraphError as error:
        raise at(error, entry.place) from error.__cause__
    return _AdmittedEntry(entry.place, exchange, early)


def _check(exchange: Exchange) -> None:
    """Reject requests that are not for documents, and options that a transaction lacks."""
    parsed = exchange.parsed
    if parsed is not None and parsed.refusal is not None:
        raise parsed.refusal
    assert isinstance(parsed, DataRequest)  # noqa: S101 - the REST API parses to nothing else
    resource, parameters = parsed.resource, parsed.parameters
    if resource is not None and (resource.type, exchange.request.method) not in _TAKEN:
        raise RequestError(
            "a batch takes requests for documents only",
            hint="GET, PUT, PATCH, DELETE of a document, POST to a collection, PATCH and DELETE "
            "with a filter",
        )
    if not isinstance(parameters, Parameters):
        return
    if parameters.consistency is not None or parameters.write_concern is not None:
        raise RequestError(
            "readPreference, readConcern and writeConcern are not for an entry",
            hint="a batch reads one snapshot, and is confirmed by the majority",
        )
    if parameters.json_mode is JsonMode.SHELL:
        raise RequestError("jsonMode=shell is not for an entry: its answer would be no JSON")


async def _carry_out(
    parts: Sequence[_AdmittedEntry], transaction: Transaction, admission: Admission
) -> list[Body]:
    """Return the answers of all entries; the first failure is raised, and rolls back the others."""
    answers: list[Body] = []
    size = 1
    for part in parts:
        await asyncio.sleep(0)
        part.exchange.transaction = transaction
        try:
            answer = part.early
            if answer is None:
                answer = await admission.serve_entry(part.exchange)
            if not isinstance(answer, Body):
                raise NotSupported("its answer cannot be a part of another one")
            failure = find_failure(answer)
            if failure is not None:
                raise failure
            answers.append(answer)
            size += len(_render_answer(answers[-1])) + 1  # also the bytes around its content
            if size > _MAX_BYTES:
                raise AnswerTooLarge(f"the answers exceed {_MAX_BYTES >> 20} MiB")
        except DocgraphError as error:
            raise at(error, part.place) from error.__cause__
    return answers


def _render(answers: Sequence[Body]) -> bytes:
    return b"[" + b",".join(map(_render_answer, answers)) + b"]"


def _render_answer(answer: Body) -> bytes:
    headers: dict[str, str] = {}
    if answer.media_type is not None:
        headers["Content-Type"] = answer.media_type
    for name, value in answer.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    content: dict[str, object] = {"status": answer.status, "headers": headers}
    if answer.content:
        is_json = answer.media_type == _JSON
        text = bytes(answer.content)
        content["body"] = text if is_json else text.decode("utf-8", "replace")
    return allocations.dumps(content, embed_json)
