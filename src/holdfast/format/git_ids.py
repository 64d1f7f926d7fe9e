"""The ids that git gives to files and folders: told from their content, without a git."""

from collections.abc import Mapping
from hashlib import sha1


def tree_sha(files: Mapping[str, str]) -> str:
    """Return the id that git gives to a folder of plain files, given as paths with their blobs.

    >>> tree_sha({})
    '4b825dc642cb6eb9a060e54bf8d69288fbee4904'
    """
    folders: dict[str, dict[str, str]] = {}
    entries: dict[str, tuple[bytes, str]] = {}
    for path, sha in files.items():
        name, _, rest = path.partition("/")
        if rest:
            folders.setdefault(name, {})[rest] = sha
        else:
            entries[name] = (b"100644", sha)
    # Git sorts a folder as if its name ended in a slash.
    lines = {name.encode(): (mode, name, sha) for name, (mode, sha) in entries.items()}
    lines |= {f"{name}/".encode(): (b"40000", name, tree_sha(inner)) for name, inner in folders.items()}
    content = b"".join(
        b"%b %b\0%b" % (mode, name.encode(), bytes.fromhex(sha))
        for _, (mode, name, sha) in sorted(lines.items())
    )
    return sha1(b"tree %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def blob_sha(content: bytes) -> str:
    """Return the id that git gives to a file of this content.

    >>> blob_sha(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    digest = sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()
