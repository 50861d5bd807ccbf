"""Database errors: translate the driver's exceptions into docgraph's errors.

Everything that leaves this package is one of `docgraph.exchange.errors`. The statuses are in the
table below, and the messages are ours. No message of the database reaches the caller, because it
may contain names of hosts, indexes or other people's data. The original is chained for the log.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from bson.errors import BSONError, InvalidBSON, InvalidDocument
from pymongo.errors import (
    BulkWriteError,
    CollectionInvalid,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    InvalidName,
    InvalidOperation,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    WaitQueueTimeoutError,
    WTimeoutError,
)

from docgraph.exchange.errors import (
    Conflict,
    DocgraphError,
    NotFound,
    NotSupported,
    PoolExhausted,
    QueryError,
    ResumePointLost,
    StoreError,
    StoreForbidden,
    StoreRejected,
    StoreUnavailable,
    TimeLimitExceeded,
)

UNAUTHORIZED = 13
AUTHENTICATION_FAILED = 18

# BSON is encoded inside the driver's calls: for numbers that do not fit, lone surrogates and
# documents nested too deeply they raise Python's own errors, and for binary data of subtype 255 the
# driver's extension a `SystemError`.
_ENCODING_ERRORS = (OverflowError, RecursionError, SystemError, UnicodeError)
DRIVER_ERRORS = (PyMongoError, BSONError, OSError, *_ENCODING_ERRORS)


class StoreDenied(StoreError):
    """The database user of docgraph lacks a privilege: not the caller's fault (decision 25)."""


class CollectionGone(NotFound):
    """The collection that was checked no longer exists, even if another one has its name now."""


@dataclass(frozen=True, slots=True)
class _Rule:
    message: str
    hint: str | None = None
    kind: type[DocgraphError] = StoreRejected


_UNREACHABLE = _Rule("the database cannot be reached", "is it running?", kind=StoreUnavailable)
_INVALID = _Rule(
    "the database sent an invalid response", "the log has the reason", kind=StoreUnavailable
)
# Not the caller's fault, so neither 401 nor 403 (decision 25).
_REFUSED = _Rule(
    "the database refuses the login of docgraph", "the log says what to do", kind=StoreUnavailable
)
_DENIED = _Rule("docgraph lacks a right at the database", "the log says which", kind=StoreDenied)
_QUERY = _Rule("invalid query: the database does not understand it")
_TRANSACTION = _Rule("the given transaction is not in progress")
_FIELD_END = _Rule("a field path must not end with a '.'")
_PROJECTION = _Rule(
    "a projection cannot both include and exclude properties",
    "only _id can be excluded from a projection that includes",
)
_SORT = _Rule("invalid sort", "a sort is an object of property and 1 or -1")
_DUPLICATE = _Rule(
    "duplicate key: the write collides with an existing _id or a unique index",
    "an update with upsert whose filter does not match an existing document collides, too",
    kind=Conflict,
)
_TIME = _Rule("operation exceeded its time limit", kind=TimeLimitExceeded)
_MEMORY = _Rule(
    "the query needs more memory than the database gives one",
    "reduce it with a filter or a limit, or allow the use of disk",
)
_INDEX = _Rule("the database does not take these keys or options of an index")
_OTHER_INDEX = _Rule(
    "an index with this name or these keys exists and is another one",
    "indexes cannot be changed: delete it and create it again",
)
_UNCONFIRMED = _Rule(
    "the write was not confirmed by enough servers in time", kind=TimeLimitExceeded
)
_CONFIRMATION = _Rule(
    "the write is done, but the servers that should confirm it are not there",
    "give another writeConcern, such as 'majority'",
)
_CONCERN = _Rule(
    "the database cannot read this collection with this read concern",
    "give another readConcern, such as 'majority'",
)
_RESUME = _Rule(
    "the change stream cannot be resumed from this token",
    "start it again without one",
    kind=ResumePointLost,
)

_NAME = _Rule("invalid database or collection name")
_VIEW = _Rule("a view does not support this", "use the collection that the view reads")
_PATH = _Rule("invalid field path in the update")
_CAPPED = _Rule("the document is too large for the capped collection", "make it shorter")
_DEEP = _Rule("the query or document is nested too deeply")
_BSON = _Rule("a value or key cannot be expressed in BSON", kind=QueryError)
_UNSUPPORTED = _Rule("the database does not support this", kind=NotSupported)
_API = _Rule("not part of the API version that the connection string demands")
_BUSY = _Rule(
    "another operation on the collection or database is in progress", "try again", kind=Conflict
)
_INTERRUPTED = _Rule(
    "the operation was interrupted at the database", "try again", kind=StoreUnavailable
)
_DISK = _Rule("the database has no space left", kind=StoreUnavailable)

_OTHER_COLLECTION = 361  # CollectionUUIDMismatch

# The names of the codes are the server's own.
_RULES: dict[int, _Rule] = {
    # BadValue, NoSuchKey, FailedToParse, UnsupportedFormat, TypeMismatch, InvalidLength,
    # EmptyArrayOperation, NoMatchParseContext, NoProjectionFound, NotExactValueField,
    # DurationOverflow, InvalidPipelineOperator; an undefined variable, a path collision in a
    # projection, an unknown stage
    **dict.fromkeys((2, 4, 9, 12, 14, 16, 21, 81, 97, 111, 159, 168, 17276, 31249, 40324), _QUERY),
    # HostUnreachable (a router has lost a shard), HostNotFound, NetworkTimeout, ShutdownInProgress,
    # PrimarySteppedDown, NetworkInterfaceExceededTimeLimit, ElectionInProgress, SocketException,
    # NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange, StaleConfig (a
    # router does not find the shard), NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary,
    # ConfigServerUnreachable
    **dict.fromkeys((6, 7, 89, 91, 189, 202, 216, 9001, 10107), _UNREACHABLE),
    **dict.fromkeys((11600, 11602, 13388, 13435, 13436, 56846), _UNREACHABLE),
    # LockTimeout, LockBusy, ConflictingOperationInProgress, DatabaseDropPending,
    # IndexBuildAlreadyInProgress, TemporarilyUnavailable, BackgroundOperationInProgressFor…
    **dict.fromkeys((24, 46, 117, 215, 285, 365, 12586, 12587), _BUSY),
    # QueryPlanKilled, CursorKilled, IndexBuildAborted, ClientDisconnect, Interrupted,
    # ClientMarkedKilled
    **dict.fromkeys((175, 237, 276, 279, 11601, 46841), _INTERRUPTED),
    # APIVersionError, APIStrictError, APIDeprecationError, APIMismatchError
    **dict.fromkeys((322, 323, 324, 347), _API),
    # ExceededMemoryLimit, QueryExceededMemoryLimitNoDiskUseAllowed, $facet beyond its bound
    **dict.fromkeys((146, 292, 4031700), _MEMORY),
    # ReadConcernMajorityNotEnabled, LinearizableReadConcernError, SnapshotUnavailable
    **dict.fromkeys((148, 187, 246), _CONCERN),
    # TransactionTooOld, NoSuchTransaction, TransactionCommitted
    **dict.fromkeys((225, 251, 256), _TRANSACTION),
    UNAUTHORIZED: _DENIED,
    15: _DEEP,  # Overflow
    AUTHENTICATION_FAILED: _REFUSED,
    22: _BSON,  # InvalidBSON
    27: _Rule("the index does not exist", kind=NotFound),  # IndexNotFound
    28: _Rule("the update leads through a value that is neither object nor array"),  # PathNotViable
    29: _PATH,  # NonExistentPath
    30: _PATH,  # InvalidPath
    34: _Rule("the update leads too far behind the end of an array"),  # CannotBackfillArray
    40: _Rule("the update changes a path and another one below it"),  # ConflictingUpdateOperators
    50: _TIME,  # MaxTimeMSExpired
    52: _Rule("a property may not start with '$'"),  # DollarPrefixedFieldName
    53: _Rule("the database does not take this _id"),  # InvalidIdField
    54: _Rule("the update leads to more than one value"),  # NotSingleValueField
    55: _Rule("a reference needs $ref and $id, in this order"),  # InvalidDBRef
    56: _FIELD_END,  # EmptyFieldName
    57: _Rule("a property may not contain '.'"),  # DottedFieldName
    61: _Rule(
        "a write to a sharded collection must specify the shard key",
        "give it with the query parameter 'shardkey'",
    ),  # ShardKeyNotFound
    64: _UNCONFIRMED,  # WriteConcernTimeout
    66: _Rule(
        "the update would change _id or the shard key", "insert a new document", kind=StoreForbidden
    ),  # ImmutableField
    67: _INDEX,  # CannotCreateIndex
    68: _OTHER_INDEX,  # IndexAlreadyExists
    73: _NAME,  # InvalidNamespace
    85: _OTHER_INDEX,  # IndexOptionsConflict
    86: _OTHER_INDEX,  # IndexKeySpecsConflict
    79: _CONFIRMATION,  # UnknownReplWriteConcern
    100: _CONFIRMATION,  # UnsatisfiableWriteConcern
    112: _Rule(
        "write conflict with another operation", "try again", kind=Conflict
    ),  # WriteConflict
    115: _UNSUPPORTED,  # CommandNotSupported
    116: _CAPPED,  # DocTooLargeForCapped
    121: _Rule("document failed validation"),  # DocumentValidationFailure
    123: _Rule(
        "the database is no replica set, which this kind of read or write needs"
    ),  # NotAReplicaSet
    133: _Rule(
        "the database has no server that fits the read preference"
    ),  # FailedToSatisfyReadPreference
    165: _Rule("views are nested too deeply"),  # ViewDepthLimitExceeded
    166: _VIEW,  # CommandNotSupportedOnView
    167: _VIEW,  # OptionNotSupportedOnView
    171: _Rule(
        "a compound index cannot cover two array properties of one document"
    ),  # CannotIndexParallelArrays
    181: _Rule("several indexes have these keys", "name one of them"),  # AmbiguousIndexKeyPattern
    182: _Rule("invalid definition of a view"),  # InvalidViewDefinition
    197: _INDEX,  # InvalidIndexSpecificationOption
    201: _Rule(
        "an index of the collection cannot hold a value of the document"
    ),  # CannotBuildIndexKeys
    207: _BSON,  # InvalidUUID
    224: _Rule(
        "the filter holds an operator that is not allowed there",
        "an upsert takes no $expr, $near or $text in its filter",
    ),  # QueryFeatureNotAllowed
    232: _DEEP,  # MaxSubPipelineDepthExceeded
    238: _UNSUPPORTED,  # NotImplemented
    241: _Rule("failed to convert a value"),  # ConversionFailure
    242: _Rule("the collection cannot be made"),  # CannotCreateCollection
    260: _RESUME,  # InvalidResumeToken
    263: _Rule(
        "the database does not do this in a transaction", "send the request alone"
    ),  # OperationNotSupportedInTransaction
    262: _TIME,  # ExceededTimeLimit
    280: _Rule(
        "the stages of a change stream must leave the _id of an event as it is"
    ),  # ChangeStreamFatalError
    286: _RESUME,  # ChangeStreamHistoryLost
    291: _Rule("no index helps to answer this query, and it needs one"),  # NoQueryExecutionPlans
    357: _BSON,  # InvalidBSONType
    370: _Rule("the index belongs to the shard key"),  # CannotDropShardKeyIndex
    371: _Rule("the database is blocking writes", kind=StoreForbidden),  # UserWritesBlocked
    _OTHER_COLLECTION: _Rule("the collection does not exist any more", kind=CollectionGone),
    10003: _CAPPED,  # CannotGrowDocumentInCappedNamespace
    10334: _Rule(
        "the document is too large", "divide it: the database stores 16 MiB in one"
    ),  # BSONObjectTooLarge
    **dict.fromkeys((11000, 11001, 12582), _DUPLICATE),  # DuplicateKey
    13297: _Rule(
        "a database of this name exists with different case", kind=Conflict
    ),  # DatabaseDifferCase
    14031: _DISK,  # OutOfDiskSpace
    15958: _Rule("a $limit must be positive"),
    16746: _Rule(
        "a number in the path is both a position of an array and a property of its elements",
        "sort by another path, or rename the property",
    ),
    15974: _SORT,
    15975: _Rule("a sort order must be 1 (ascending) or -1 (descending)"),
    15998: _Rule("a field path may not contain an empty name"),
    16410: _Rule("a name in a field path may not start with '$'"),
    **dict.fromkeys((17287, 31253, 31254), _PROJECTION),
    17312: _SORT,
    31138: _Rule("invalid $meta sort"),
    40218: _Rule(
        "the filter gives no score or distance to sort by or show",
        "$meta needs $text or $near in the filter",
    ),
    40323: _Rule("a pipeline stage must be an object with exactly one property"),
    40352: _Rule("a field path cannot be empty"),
    40353: _FIELD_END,
    40573: _Rule(
        "change streams need a replica set or a sharded cluster",
        "turn the server into a replica set; one of a single member is enough",
        kind=NotSupported,
    ),  # change streams on a standalone server
    51091: _Rule("invalid regular expression"),
    51108: _Rule("invalid option of a regular expression"),
    51246: _Rule(
        "a projection such as 'items.$' found no matching element",
        "add a condition on that array to the filter",
    ),
    5626500: _Rule(
        "$near and $nearSphere cannot be used here, such as for a count",
        "use $geoWithin with $center or $centerSphere",
    ),
}

# Codes with several meanings, such as BadValue and TypeMismatch, by the text of the error.
_BY_TEXT: dict[str, _Rule] = {
    "by zero": _Rule("an expression divides by zero"),
    "resume token was not found": _RESUME,  # the stages removed the event of the token
    "valid BSON UTC datetime": _Rule(
        "a document of a time series needs a date in the time field",
        "the option timeField of the collection names the field",
    ),
    "on a time-series collection|is a timeseries collection": _Rule(
        "a time series cannot change or delete single documents",
        "change or delete all documents with some values of the metaField",
    ),
    "Cannot apply .*non-(numeric|integral) type": _Rule(
        "the update computes with a value that is no number", "$set a number first"
    ),
    "Cannot apply .*non-array|must be an array but is of type|element of non-array type": _Rule(
        "the update changes a list, but the value is none", "$set a list first"
    ),
    "positional operator did not find|No array filter found": _Rule(
        "the update does not say which elements of the list it changes",
        "use $[] for all of them, or a condition on the list in the filter and $",
    ),
    "operations to current value": _Rule("the number would have more than 64 bits"),
}
_VAGUE = (_QUERY, _VIEW, _RULES[280])
_UNKNOWN = _Rule(
    "the database could not do what was asked", "the log has the reason", kind=StoreError
)


_OF_THE_CONNECTION = (ConnectionFailure, ConfigurationError, InvalidOperation)
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})  # a connection could not be opened


def translate(error: BaseException) -> DocgraphError:
    """Return docgraph's error for this one; the caller raises it `from` the original."""
    if isinstance(error, DocgraphError):
        return error
    if isinstance(error, WTimeoutError):
        return _render(_UNCONFIRMED)
    if isinstance(error, OperationFailure):
        return explain(_code_of(error), str(error))
    cause = error.__cause__
    is_short_of_files = isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTORS
    if isinstance(error, WaitQueueTimeoutError) or is_short_of_files:
        return PoolExhausted()
    if isinstance(error, InvalidName):
        return _render(_NAME)
    if isinstance(error, CollectionInvalid):
        return Conflict("the collection exists already")
    if isinstance(error, ProtocolError):
        return _render(_INVALID)
    if isinstance(error, _OF_THE_CONNECTION):
        return unreachable()
    return _translate_encoding(error)


def _code_of(error: OperationFailure) -> int:
    if isinstance(error, BulkWriteError):
        if is_collection_gone(error):
            return _OTHER_COLLECTION
        return find_unconfirmed(error) or 0
    return error.code or 0


def is_collection_gone(error: BulkWriteError) -> bool:
    """Check if the collection was dropped before a bulk write was complete."""
    failed = error.details.get("writeErrors", ())
    return any(entry.get("code") == _OTHER_COLLECTION for entry in failed)


def find_unconfirmed(error: BulkWriteError) -> int | None:
    """Return the code of a missing write confirmation of a bulk write, besides its own failures."""
    errors = error.details.get("writeConcernErrors")
    return errors[0].get("code") if errors else None


def _translate_encoding(error: BaseException) -> DocgraphError:
    """Translate errors of encoding and decoding BSON, which need no database."""
    match error:
        case InvalidBSON():
            return StoreError("a stored document cannot be read", hint="the log has the reason")
        case DocumentTooLarge():
            return QueryError("the query or document is too large for the database")
        case RecursionError():
            return QueryError("the query or document is nested too deeply")
        case OverflowError():
            return QueryError("a number is out of the range of BSON")
        case UnicodeError():
            return QueryError("a text is not valid Unicode")
        case InvalidDocument() | BSONError() | SystemError():
            return _render(_BSON)
        case OSError():
            return unreachable()
        case _:
            return _render(_UNKNOWN)


def out_of_time() -> DocgraphError:
    """Return the error of a command that exceeded its time limit: 408."""
    return _render(_TIME)


def unreachable() -> DocgraphError:
    """Return the error of an unreachable database; its address is not shown to callers."""
    return _render(_UNREACHABLE)


def explain(code: int | None, text: str = "") -> DocgraphError:
    """Return the error for a code of the database, such as that of one element of many.

    Other codes than vague ones say enough; their texts may contain values of documents.
    """
    rule = _RULES.get(code, _UNKNOWN) if isinstance(code, int) else _UNKNOWN
    if rule is _UNKNOWN or rule in _VAGUE:
        rule = next(
            (candidate for pattern, candidate in _BY_TEXT.items() if re.search(pattern, str(text))),
            rule,
        )
    return _render(rule)


def _render(rule: _Rule) -> DocgraphError:
    error = rule.kind(rule.message)
    error.hint = rule.hint
    return error
