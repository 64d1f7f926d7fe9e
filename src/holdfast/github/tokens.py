"""The GitHub token: given once, or kept in a file that is read again when it changes."""

import hashlib
from pathlib import Path

from holdfast.logs import log


class TokenSource:
    """Gives the token that is in force now."""

    def __init__(self, token: str | None, file: Path | None) -> None:
        self._token = token
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._last_fault = ""

    def token(self) -> str | None:
        """Return the token; the file's wins over the other, and the last good one over an unreadable file."""
        if self._file is not None:
            self._read_file(self._file)
        return self._token

    def known(self) -> str | None:
        """Return the token that is held, without asking anybody for one."""
        return self.token()

    @property
    def is_set(self) -> bool:
        """Whether there is a token."""
        return bool(self.token())

    def fingerprint(self) -> str:
        """Return what tells one token from another, without telling the token."""
        return hashlib.sha256((self.token() or "").encode()).hexdigest()[:16]

    def _read_file(self, file: Path) -> None:
        try:
            status = file.stat()
            if self._seen == (status.st_mtime_ns, status.st_size):
                return
            self._token = file.read_text(encoding="utf-8").strip() or None
            self._seen = (status.st_mtime_ns, status.st_size)
            self._last_fault = ""
        except (OSError, UnicodeDecodeError) as error:
            fault, before = type(error).__name__, self._last_fault
            self._last_fault = fault  # before it is logged, as logging asks for the token too
            if fault != before:
                log.warning("token_file_unreadable", file=str(file), cause=fault)
