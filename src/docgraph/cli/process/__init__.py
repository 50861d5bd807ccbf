"""The process of a command: its streams, the signals that come to it, its end."""
