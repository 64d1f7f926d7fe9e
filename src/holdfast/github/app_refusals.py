"""What is wrong with a GitHub App, said so that a person can mend it; and its private key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import GatewayError, InvalidSettings, Refused, Throttled, Unavailable

_WAIT_S = 60.0


def refuse_app(path: str, status: int, content: Any) -> GatewayError:
    """Return the error for GitHub's answer to what an App has asked."""
    said = str(content.get("message", "")) if isinstance(content, Mapping) else ""
    reason = f"GitHub answered {status} to the App: {said}"
    if status == 401:
        advice = "Check HOLDFAST_APP_ID, its private key, and this machine's clock."
        return Refused(path, reason, kind="auth", advice=advice)
    if status == 404:
        advice = "Install the App on this repository, or correct HOLDFAST_APP_INSTALLATION_ID."
        return Refused(path, reason, kind="not_found_or_no_access", advice=advice)
    if status == 429 or "rate limit" in said.lower():
        return Throttled(path, reason, kind="secondary", retry_after_s=_WAIT_S)
    if status in (403, 422):
        advice = "The App may be suspended there; look at the account's installed GitHub Apps."
        return Refused(path, reason, kind="permission", advice=advice)
    return Unavailable(path, reason)


def refuse_key(cause: object) -> Refused:
    """Return the error for a key that signs nothing. The cause may quote it, so only its kind is told."""
    return Refused(
        "",
        f"the App's private key cannot be used ({type(cause).__name__})",
        kind="auth",
        advice="Give the whole PEM file that GitHub made for the App, in HOLDFAST_APP_PRIVATE_KEY_FILE.",
    )


def read_private_key(given: str | None, file: Path | None) -> str:
    r"""Return the key, of the file before the other. Raises InvalidSettings.

    >>> read_private_key("-----BEGIN-----\\nabc", None)
    '-----BEGIN-----\nabc'
    """
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = f"HOLDFAST_APP_PRIVATE_KEY_FILE: {file} cannot be read: {type(error).__name__}"
            raise InvalidSettings([problem]) from None
    if not given:
        raise InvalidSettings(["HOLDFAST_APP_ID: set HOLDFAST_APP_PRIVATE_KEY_FILE to the App's key, too"])
    # Where a variable cannot hold lines, they are usually written so.
    return given.replace("\\n", "\n")
