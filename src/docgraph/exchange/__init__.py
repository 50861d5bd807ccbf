"""Shared vocabulary of all layers: request, response, account, deadline, data, errors."""

from docgraph.exchange.data import (
    Consistency,
    DataPoint,
    Document,
    Read,
    Resource,
    ResourceType,
    Write,
    WriteConcern,
    WriteFailure,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import ConfigError, DocgraphError, Problem, StartupError
from docgraph.exchange.exchange import (
    EventStreams,
    Exchange,
    NotifyWhen,
    Permission,
    Renew,
    Snapshot,
    Subscription,
    WatchedIsGone,
)
from docgraph.exchange.headers import Headers
from docgraph.exchange.parsed import DataParameters, DataRequest, Parsed, WriteMode
from docgraph.exchange.request import Account, Connection, Request
from docgraph.exchange.response import (
    Answer,
    Body,
    SharedMessages,
    Socket,
    Stream,
    Takeover,
    Upgrade,
)

__all__ = [
    "Account",
    "Answer",
    "Body",
    "ConfigError",
    "Connection",
    "Consistency",
    "DataParameters",
    "DataPoint",
    "DataRequest",
    "Deadline",
    "DocgraphError",
    "Document",
    "EventStreams",
    "Exchange",
    "Headers",
    "NotifyWhen",
    "Parsed",
    "Permission",
    "Problem",
    "Read",
    "Renew",
    "Request",
    "Resource",
    "ResourceType",
    "SharedMessages",
    "Snapshot",
    "Socket",
    "StartupError",
    "Stream",
    "Subscription",
    "Takeover",
    "Upgrade",
    "WatchedIsGone",
    "Write",
    "WriteConcern",
    "WriteFailure",
    "WriteKind",
    "WriteMode",
    "WriteResult",
]
