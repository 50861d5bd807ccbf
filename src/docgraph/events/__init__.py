"""Change streams over WebSocket and server-sent events (SSE), shared by many clients.

    source (a cursor) → who may see it → stages → channels (logs) → readers → WebSocket or SSE

All listeners of a collection share a cursor of the database. Each event is encoded once per format
and appended to the logs, of bounded size, of those who may see it. Every client reads its log in
order, at its own pace. A client is closed when events that it has not read yet drop out of the log.
A slow client therefore does not delay others, and an idle client costs next to nothing.
"""
