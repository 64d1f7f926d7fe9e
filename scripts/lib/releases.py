"""The files of a release, as the package index lists them."""

import re
import ssl
import subprocess
import sys
from functools import cache
from urllib.request import Request, urlopen

from environment import clean_variables

_LINK = re.compile(r"<a [^>]*#sha256=([0-9a-f]{64})[^>]*>\s*([^<]+?)\s*</a>")
_TIMEOUT_S = 60


def find_digests(name: str, version: str) -> list[str]:
    """Return the SHA-256 of every file of a release, wheels for all machines and sources alike."""
    found = sorted({digest for digest, file in _LINK.findall(_read_page(name)) if is_of(file, name, version)})
    if not found:
        raise SystemExit(f"the package index lists no file of {name} {version} with its SHA-256")
    return found


def is_of(file: str, name: str, version: str) -> bool:
    """Whether a file belongs to a release, by its name.

    >>> is_of("a_b-1.0-py3-none-any.whl", "a-b", "1.0"), is_of("a.b-1.0.1.tar.gz", "a-b", "1.0")
    (True, False)
    """
    stem = re.sub(r"(\.tar\.(gz|bz2)|\.zip|\.whl)$", "", file)
    pattern = "[-_.]+".join(map(re.escape, name.split("-"))) + "-" + re.escape(version)
    is_wheel = file.endswith(".whl")
    return bool(re.fullmatch(f"{pattern}-.+" if is_wheel else pattern, stem, re.IGNORECASE))


def _read_page(name: str) -> str:
    request = Request(f"{_index_url().rstrip('/')}/{name}/", headers={"Accept": "text/html"})
    with urlopen(request, timeout=_TIMEOUT_S, context=ssl.create_default_context()) as answer:
        text: str = answer.read().decode()
    return text


@cache
def _index_url() -> str:
    """Return the package index that pip uses here."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(command, env=clean_variables(), capture_output=True, text=True, check=False)
    if told.returncode == 0 and told.stdout.strip():
        return told.stdout.strip()
    from pip._internal.models.index import PyPI

    return str(PyPI.simple_url)
