"""The workflows that come with Holdfast, made ready for one sidecar."""

from importlib.resources import files
from urllib.parse import urlsplit

import orjson

DEFAULT_URL = "http://127.0.0.1:8723"
NAMES = ("save-checkpoint.json", "resume-run.json", "decide-review.json", "example.json", "on-error.json")

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_HTTP_REQUEST = "n8n-nodes-base.httpRequest"
_HEADER_AUTH = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}


def read_workflow(name: str) -> bytes:
    """Return a workflow as it is shipped, for the default address and without a token."""
    return files("holdfast.n8n").joinpath("templates", name).read_bytes()


def prepare_workflow(name: str, *, url: str, has_token: bool) -> bytes:
    """Return a workflow that calls the sidecar at `url`.

    With `has_token`, its HTTP Request nodes ask for a Header Auth credential. n8n keeps credentials apart
    from workflows, so which one it is must be chosen there.
    """
    text = read_workflow(name).replace(DEFAULT_URL.encode(), url.rstrip("/").encode())
    if not has_token:
        return text
    workflow = orjson.loads(text)
    for node in workflow["nodes"]:
        if node["type"] == _HTTP_REQUEST:
            node["parameters"] |= _HEADER_AUTH
    return orjson.dumps(workflow, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def is_loopback_url(url: str) -> bool:
    """Whether `url` leads to the machine that calls it, where no token is needed.

    >>> is_loopback_url("http://localhost:8723"), is_loopback_url("http://holdfast:8723")
    (True, False)
    """
    return urlsplit(url).hostname in _LOOPBACK
