"""Change streams over WebSocket and server-sent events (SSE), shared by many clients.

    subscription → cursor (one for all who see the same) → log → readers → WebSocket or SSE

A cursor of the database writes each event once, encoded, into a log of bounded size. Every client
reads the log in order, at its own pace. A client is closed when events that it has not read yet
drop out of the log. A slow client therefore does not delay others, and an idle client costs next to
nothing.
"""
