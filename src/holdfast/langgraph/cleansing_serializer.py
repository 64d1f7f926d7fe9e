"""Takes credentials out of what LangGraph's serializer makes of a value: nobody looks into it afterwards."""

from collections.abc import Callable
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.logs import log

_OPTIONS = ormsgpack.OPT_NON_STR_KEYS


class CleansingSerializer:
    """Serializes as `inner` does, without the credentials in texts at any depth; reads as `inner` does."""

    def __init__(self, inner: SerializerProtocol, redact: Callable[[str], str]) -> None:
        self._inner = inner
        self._redact = redact

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        """Return a value as `inner` does, with marks where credentials stood."""
        kind, content = self._inner.dumps_typed(value)
        try:
            cleansed = content
            if kind != "msgpack":
                cleansed = self._redact(content.decode()).encode()
            elif self._is_suspect(content):
                cleansed = self._cleanse(content)
        except (ValueError, TypeError, RecursionError):
            return kind, content  # of another serializer, which nobody can look into
        if cleansed != content:
            log.warning("value_redacted", advice="Store a reference to a credential, not the credential.")
        return kind, cleansed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that was serialized."""
        return self._inner.loads_typed(data)

    def _cleanse(self, packed: bytes) -> bytes:
        """Return packed values without credentials; the very same bytes if there are none."""
        has_changed = False

        def open_extension(code: int, content: bytes) -> ormsgpack.Ext:
            nonlocal has_changed
            cleansed = self._cleanse(content)
            has_changed = has_changed or cleansed != content
            return ormsgpack.Ext(code, cleansed)

        def walk(value: Any) -> Any:
            nonlocal has_changed
            if isinstance(value, str):
                redacted = self._redact(value)
                has_changed = has_changed or redacted is not value
                return redacted
            if isinstance(value, dict):
                return {walk(name): walk(each) for name, each in value.items()}
            return [walk(each) for each in value] if isinstance(value, list) else value

        walked = walk(ormsgpack.unpackb(packed, ext_hook=open_extension, option=_OPTIONS))
        return ormsgpack.packb(walked, option=_OPTIONS) if has_changed else packed

    def _is_suspect(self, packed: bytes) -> bool:
        """Whether any text in packed values may hold a credential, found out by one search in all of them."""
        together = "\n".join(_texts(packed))
        return self._redact(together) is not together


def _texts(packed: bytes) -> list[str]:
    found: list[str] = []

    def open_extension(_code: int, content: bytes) -> None:
        walk(ormsgpack.unpackb(content, ext_hook=open_extension, option=_OPTIONS))

    def walk(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for name, each in value.items():
                walk(name)
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(ormsgpack.unpackb(packed, ext_hook=open_extension, option=_OPTIONS))
    return found
