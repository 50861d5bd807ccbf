"""Declared surface of docgraph for tools of authors, next to the public names of `docgraph`.

`commands` helps to write a command, `endpoints` a tool below `/_tools`. `installation` finds what a
configuration serves and starts it, `apps` compiles definitions and plans their queries, `data`
reads collections and their indexes. `configuration` reads and checks configuration files, `stored`
finds faults of stored documents. The packages of this repository import nothing else; the names in
`__all__` change only with notice.
"""
