"""HTTP fields as a value: case-insensitive names, order and repetition kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["Headers"]


class Headers:
    """The fields of a request, decoded once as latin-1 (RFC 9110 5.5)."""

    __slots__ = ("_items",)

    def __init__(self, raw: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._items = [(n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in raw]

    @classmethod
    def of(cls, **fields: str) -> Headers:
        """`Headers.of(content_type="text/plain")`, for tests and commands."""
        return cls((n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in fields.items())

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of that name."""
        name = name.lower()
        for key, value in self._items:
            if key == name:
                return value
        return default

    def get_list(self, name: str) -> list[str]:
        """Every value of that name, in order."""
        name = name.lower()
        return [value for key, value in self._items if key == name]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
