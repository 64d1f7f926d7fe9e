"""What is packed here arrives at the server as it was."""

import math

from holdfast.queue.postgres import arrays
from holdfast.queue.postgres.database import Database

ODD_TEXTS = ["plain", "", "NULL", None, 'a "quoted" \\ one', "{1,2}", "déjà vu ☃ 🂡", " two\nlines "]


def ask(database: Database, kind: str, packed: object) -> list[object]:
    (found,) = database.look(
        lambda connection: connection.execute(f"select %s::{kind}[]".encode(), (packed,)).fetchone()
    ) or ([],)
    return list(found)


def test_texts_arrive_as_they_are(database: Database) -> None:
    assert ask(database, "text", arrays.texts(ODD_TEXTS)) == ODD_TEXTS
    assert ask(database, "text", arrays.texts([])) == []


def test_bytes_arrive_as_they_are(database: Database) -> None:
    blobs = [bytes(range(256)), b"", b"\\x00{,}"]

    assert ask(database, "bytea", arrays.blobs(blobs)) == blobs


def test_numbers_arrive_to_their_last_digit(database: Database) -> None:
    moments = [0.1 + 0.2, 1763496000.123456, 5e-324, math.pi, -0.0, 1234]

    assert ask(database, "bigint", arrays.numbers([0, -1, 2**62])) == [0, -1, 2**62]
    assert ask(database, "double precision", arrays.numbers(moments)) == moments
