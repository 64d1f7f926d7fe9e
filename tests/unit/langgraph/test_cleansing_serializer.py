"""Credentials do not hide in what LangGraph serializes."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.format.redacted import MARK
from holdfast.langgraph.cleansing_serializer import CleansingSerializer
from holdfast.security.redaction import Redactor
from tests.fakes.credentials import MAKERS, Forger

TOKEN = MAKERS["github-token"][0](Forger())
INNER = JsonPlusSerializer(allowed_msgpack_modules=None)
SERDE = CleansingSerializer(INNER, Redactor("known", list).redact_text)


@pytest.mark.parametrize("before", ["", "x" * 60 + " ", "use "])
def test_credentials_in_messages_are_taken_out(before: str) -> None:
    message = AIMessage(f"{before}{TOKEN} to log in", additional_kwargs={"tool": [{TOKEN: 1}]})

    kind, content = SERDE.dumps_typed([message, HumanMessage("thanks"), {7: {TOKEN}}])

    assert TOKEN.encode() not in content
    first, second, third = SERDE.loads_typed((kind, content))
    assert first.content == f"{before}{MARK} to log in"
    assert first.additional_kwargs == {"tool": [{MARK: 1}]}
    assert (second, third) == (HumanMessage("thanks"), {7: {MARK}})


@pytest.mark.parametrize("value", [b"raw", b"\xff\x00", None, [HumanMessage("hello")], {1: 2}, 2**40])
def test_all_else_is_serialized_as_ever(value: Any) -> None:
    assert SERDE.dumps_typed(value) == INNER.dumps_typed(value)
    assert SERDE.loads_typed(SERDE.dumps_typed(value)) == value


def test_credential_in_bytes_is_taken_out() -> None:
    assert SERDE.loads_typed(SERDE.dumps_typed(f"key {TOKEN}".encode())) == f"key {MARK}".encode()
