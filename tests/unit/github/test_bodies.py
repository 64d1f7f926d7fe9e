import base64
import json
import os

import pytest

from holdfast.github.bodies import Base64, LargeBody, encode_body


@pytest.mark.parametrize("size", [0, 1, 2, 3, 700_000, 3 * 64 * 1024, 1_000_001, 3_000_000])
def test_body_holds_the_file_in_base64_and_tells_its_length(size: int) -> None:
    content = os.urandom(size)
    body = encode_body({"message": "é\0", "content": Base64(content), "branch": "main"})
    text = b"".join(body) if isinstance(body, LargeBody) else body
    assert json.loads(text) == {
        "message": "é\0",
        "content": base64.b64encode(content).decode(),
        "branch": "main",
    }
    assert len(body) == len(text)
    assert isinstance(body, LargeBody) == (len(text) > 1024**2)


def test_large_body_can_be_sent_again() -> None:
    files = [os.urandom(800_000) for _ in range(3)]
    body = encode_body({"additions": [{"contents": Base64(file)} for file in files]})
    assert isinstance(body, LargeBody)
    first, second = b"".join(body), b"".join(body)
    assert first == second
    assert [base64.b64decode(each["contents"]) for each in json.loads(first)["additions"]] == files


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="not JSON"):
        encode_body({"content": object()})
