"""The account, the repository as a whole, and the server itself."""

import os
from pathlib import Path

from holdfast.emulator.exchange import Answer, json_answer
from holdfast.emulator.shapes import format_time, repository_shape, viewer_shape
from holdfast.emulator.visit import Visit

FANOUT = 256
SAMPLED_FOLDERS = 16


def get_repository(visit: Visit) -> Answer:
    """Answer the repository's description."""
    served = visit.repository
    folder = served.git.folder
    created = format_time((folder / "HEAD").stat().st_mtime)
    head = served.git.read_ref(f"refs/heads/{served.git.default_branch}")
    updated = format_time(served.git.read_commit(head).committer.time) if head else created
    shape = repository_shape(
        visit.links,
        number=served.number,
        default_branch=served.git.default_branch,
        size_kb=_folder_kb(folder),
        created=created,
        updated=updated,
    )
    if visit.switches.read_only:
        shape["permissions"] = {**dict.fromkeys(shape["permissions"], False), "pull": True}
    return json_answer(shape)


def get_viewer(visit: Visit) -> Answer:
    """Answer the token's owner."""
    return json_answer(viewer_shape(visit.request.base_url, visit.options.login, format_time(0)))


def get_rate_limit(visit: Visit) -> Answer:
    """Answer what is left of each budget, at no cost."""
    return json_answer({"resources": visit.rate_overview()})


def get_root(visit: Visit) -> Answer:
    """Answer where things are."""
    base = visit.request.base_url
    return json_answer(
        {
            "current_user_url": f"{base}/user",
            "rate_limit_url": f"{base}/rate_limit",
            "repository_url": f"{base}/repos/{{owner}}/{{repo}}",
        }
    )


def get_meta(visit: Visit) -> Answer:
    """Answer what kind of server this is."""
    documentation = f"{visit.request.base_url}/meta"
    return json_answer({"verifiable_password_authentication": False, "documentation_url": documentation})


def _folder_kb(folder: Path) -> int:
    """Return about how large a repository is: packs, and loose objects as a sample of them lets expect.

    GitHub's own figure is late and rounded too.
    """
    packs = _files_bytes(folder / "objects" / "pack")
    sample = sum(_files_bytes(folder / "objects" / f"{first:02x}") for first in range(SAMPLED_FOLDERS))
    return (packs + sample * FANOUT // SAMPLED_FOLDERS) // 1024


def _files_bytes(folder: Path) -> int:
    try:
        with os.scandir(folder) as found:
            return sum(entry.stat().st_size for entry in found)
    except OSError:
        return 0
