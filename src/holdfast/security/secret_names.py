"""Names under which a secret is likely, in any spelling: `password`, `apiKey`, `X-API-KEY`."""

import re

# Words that a name ends with, "_" where a spelling may part them. One that says how many (`max_tokens`), or
# that a test has passed, is not meant: neither `session_tokens`, which are counted, nor `id_tokens`, with
# which `valid_tokens` and `paid_tokens` end once separators are dropped.
_WORDS = (
    r"(?:pass_(?:word|wd|phrase|code)s?|pwds?|secrets?"
    r"|(?:db|database|smtp|mail|user|admin|root|ftp|ssh|proxy|mysql|pg|postgres|redis|ldap|login|keystore)_pass"
    r"|(?:api|access|secret|private|signing|encryption)_keys?"
    r"|token|(?:api|auth|access|refresh|bearer)_tokens|authorization|bearer|cookies?|credentials?"
    r"|connection_string|dsn|otp|pin_code)(?:_(?:value|text|hash|header|string|[0-9]+))?"
)
_TELLING = re.compile(_WORDS.replace("_", "") + "$")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
# Every shell has these in its environment.
_WORKING_FOLDERS = frozenset({"PWD", "OLDPWD"})

# The same over raw text, with what may stand between the words of a name: whether it is worthwhile to look at
# the names one by one. It finds each name that is telling, unless one of these words is pulled apart itself.
_BETWEEN = r'(?:[^a-z0-9"\\]|\\u[0-9a-f]{4}|\\[^u])*'
ANCHOR = f'(?i){_WORDS}_"\\s*:'.replace("_", _BETWEEN)
NESTED_ANCHOR = f'(?i){_WORDS}_\\\\+"\\s*:'.replace("_", _BETWEEN)
"""The same for names in a JSON text that is itself a string of one."""

# What a text assigns to such a name: as a variable of the environment, in the query of a URL, or as JSON and
# Python write a member. What takes the value of another variable (`$NAME`) holds no secret. What `env` prints
# is not quoted, so that what means something to a shell may be a part of the value, except at its beginning;
# but in the query of a URL `&` ends it, also where a parameter is spelled like a variable.
_ASSIGNMENT = "[A-Z0-9_]{0,64}" + _WORDS.upper().replace("_", "_?").replace("PWDS?", "_PWD") + "="
_VARIABLE = rf"\b{_ASSIGNMENT}"
_VARIABLE_OF_NO_URL = rf"(?:^|[^?&\w]){_ASSIGNMENT}"
_PARAMETER = r"[?&][A-Za-z0-9_.-]{0,64}(?i:" + _WORDS.replace("_", "[_.-]?") + ")="
_MEMBER = "(?i:" + _WORDS.replace("_", "[_. -]?").replace("pwds?", "[_-]pwd") + ")"
ASSIGNED_ANCHORS = (_VARIABLE, _PARAMETER, rf"{_MEMBER}'\s*:")
ASSIGNED = (
    rf"""{_VARIABLE_OF_NO_URL}([^\s"'`$&;|<>()][^\s"'`]*)""",
    rf'{_VARIABLE}"([^"$][^"]*)',
    rf"{_VARIABLE}'([^']+)",
    rf"""{_PARAMETER}([^\s"'`&#<>]+)""",
    rf"""{_MEMBER}"\s*:\s*"((?:[^"\\]|\\.)+)\"""",
    rf"""{_MEMBER}'\s*:\s*'((?:[^'\\]|\\.)+)'""",
)


def is_telling(name: str) -> bool:
    """Whether a value under this name is likely to be a secret.

    >>> [is_telling(name) for name in ("dbPassword", "X-API-KEY", "access_token", "max_tokens")]
    [True, True, True, False]
    """
    if name in _WORKING_FOLDERS:
        return False
    return _TELLING.search(_SEPARATORS.sub("", name.lower())) is not None
