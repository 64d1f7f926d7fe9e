"""Keys from settings and files, and the secret by which a writer without a private key knows repetitions."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidSettings
from holdfast.security.keys import Purpose, SecurityKey, parse_keys

if TYPE_CHECKING:
    from holdfast.settings.kinds import Secret

_LOCAL_SECRET_BYTES = 32
_MOST_BYTES = 1_000_000  # far more than keys take


def load_keys(purpose: Purpose, given: "Secret | None", file: Path | None) -> tuple[SecurityKey, ...]:
    """Return the keys for a purpose; the file's come first. Raises InvalidSettings."""
    keys: list[SecurityKey] = []
    if file is not None:
        try:
            keys += parse_keys(_read(file), purpose)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidSettings([f"HOLDFAST_{purpose.upper()}_KEY_FILE: {file}: {reason}"]) from None
    if given is not None:
        keys += parse_keys(given.get_secret_value(), purpose)
    first: dict[str, SecurityKey] = {}
    for key in keys:
        first.setdefault(key.kid, key)
    return tuple(first.values())


def _read(file: Path) -> str:
    """Return the text of a file, which may be a pipe. Raises OSError, ValueError."""
    with file.open("rb") as opened:
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("it is too large for keys")
    return content.decode("utf-8")


def read_local_secret(folder: Path) -> bytes:
    """Return a secret that stays in a data folder; it is made when it is first asked for."""
    path = folder / "fingerprint.key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"fingerprint-{os.getpid()}.key"
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_LOCAL_SECRET_BYTES))
        with suppress(FileExistsError):  # another process was quicker
            os.link(made, path)
        made.unlink()
    return path.read_bytes()
