"""Which failures of a read are worth another try: the server may answer the next one."""

from __future__ import annotations

from pymongo.errors import (
    AutoReconnect,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

# After these codes the same read may succeed, often on another server; except 175, from the
# specification of retryable reads. Connection errors are exceptions of their own.
_WORTH_ANOTHER_TRY = frozenset(
    {
        6,  # HostUnreachable
        7,  # HostNotFound
        89,  # NetworkTimeout
        91,  # ShutdownInProgress
        134,  # ReadConcernMajorityNotAvailableYet
        175,  # QueryPlanKilled: the collection was dropped or renamed while it was read
        189,  # PrimarySteppedDown
        262,  # ExceededTimeLimit
        9001,  # SocketException
        10107,  # NotWritablePrimary
        11600,  # InterruptedAtShutdown
        11602,  # InterruptedDueToReplStateChange
        13435,  # NotPrimaryNoSecondaryOk
        13436,  # NotPrimaryOrSecondary
    }
)


def is_worth_another_try(error: AutoReconnect | OperationFailure) -> bool:
    """Return whether the read may succeed if it is sent again."""
    if isinstance(error, OperationFailure):
        return error.code in _WORTH_ANOTHER_TRY
    return not isinstance(error, (ServerSelectionTimeoutError, WaitQueueTimeoutError))
