"""Change streams: what happens to a collection, told to many clients as it happens.

    subscription → cursor (one for all who may see the same) → log → readers → WebSocket or SSE

A cursor of the database writes each event once, encoded, into a log of bounded size; every client
reads the log at its own pace, in order, and is closed when what it has not read yet falls out of
it. So a slow client costs nobody anything, and an idle one next to nothing.
"""
