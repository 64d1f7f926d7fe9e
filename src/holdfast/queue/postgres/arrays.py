"""Columns of values as PostgreSQL's arrays, packed here: the driver's own way costs several times as much."""

import struct
from collections.abc import Iterable, Sequence
from typing import ClassVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_TEXT, _BYTEA = 25, 17
_TEXT_ARRAY, _BYTEA_ARRAY = 1009, 1001
# One dimension, with nulls perhaps, of this type, so many, counted from 1.
_pack_head = struct.Struct("!iiIii").pack
_pack_length = struct.Struct("!i").pack
_NULL = _pack_length(-1)


class _TextArray(bytes):
    """A `text[]` as the server takes it."""


class _ByteaArray(bytes):
    """A `bytea[]` as the server takes it."""


def texts(values: Sequence[str | None]) -> bytes:
    """Return a `text[]`."""
    return _TextArray(_pack(_TEXT, [None if value is None else value.encode() for value in values]))


def blobs(values: Sequence[bytes]) -> bytes:
    """Return a `bytea[]`."""
    return _ByteaArray(_pack(_BYTEA, values))


def numbers(values: Iterable[float]) -> str:
    """Return an array of numbers, as text.

    >>> numbers([7, 0.25])
    '{7,0.25}'
    """
    return f"{{{','.join(map(repr, values))}}}"


def _pack(kind: int, values: Sequence[bytes | None]) -> bytes:
    pieces = [_pack_head(1, 1, kind, len(values), 1)]
    for value in values:
        if value is None:
            pieces.append(_NULL)
        else:
            pieces += (_pack_length(len(value)), value)
    return b"".join(pieces)


class _PackedDumper(Dumper):
    format: ClassVar[Format] = Format.BINARY  # type: ignore[misc]

    def dump(self, obj: bytes) -> bytes:
        return obj


class _TextArrayDumper(_PackedDumper):
    oid = _TEXT_ARRAY


class _ByteaArrayDumper(_PackedDumper):
    oid = _BYTEA_ARRAY


psycopg.adapters.register_dumper(_TextArray, _TextArrayDumper)
psycopg.adapters.register_dumper(_ByteaArray, _ByteaArrayDumper)
