"""Names under which a secret is likely, in any spelling: `password`, `apiKey`, `X-API-KEY`."""

import re

# The words that a name ends with, run together; one that says how many (`max_tokens`) is not meant.
_TELLING = re.compile(
    r"(?:password|passwd|passphrase|passcode|pwd|secrets?|apikeys?|accesskeys?|secretkeys?|privatekeys?"
    r"|signingkeys?|encryptionkeys?|token|authtokens|accesstokens|refreshtokens|authorization|bearer|cookies?"
    r"|credentials?|connectionstring|dsn|otp|pincode)(?:value|text|hash|header|string|[0-9]+)?$"
)
_SEPARATORS = re.compile(r"[^a-z0-9]+")

# The same over raw text, with what may stand between the words of a name: whether it is worthwhile to look at
# the names one by one. It finds each name that is telling, unless one of these words is pulled apart itself.
_BETWEEN = r'(?:[^a-z0-9"\\]|\\u[0-9a-f]{4}|\\[^u])*'
ANCHOR = (
    r"(?i)(?:pass_(?:word|wd|phrase|code)|pwd|secrets?|(?:api|access|secret|private|signing|encryption)_keys?"
    r"|token|(?:auth|access|refresh)_tokens|authorization|bearer|cookies?|credentials?|connection_string|dsn|otp"
    r'|pin_code)(?:_(?:value|text|hash|header|string|[0-9]+))?_"\s*:'
).replace("_", _BETWEEN)


def is_telling(name: str) -> bool:
    """Whether a value under this name is likely to be a secret.

    >>> [is_telling(name) for name in ("dbPassword", "X-API-KEY", "access_token", "max_tokens")]
    [True, True, True, False]
    """
    return _TELLING.search(_SEPARATORS.sub("", name.lower())) is not None
