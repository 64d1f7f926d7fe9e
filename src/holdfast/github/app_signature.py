"""The word by which GitHub knows an App: a short-lived JWT, signed with the App's private key.

See https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

from collections.abc import Callable

from holdfast.github.app_refusals import refuse_key

# GitHub allows ten minutes, and advises to begin a minute ago, for clocks that differ.
_BEGINS_BEFORE_S = 60
_LASTS_S = 540


def make_signer(app_id: str, private_key: str, now: Callable[[], float]) -> Callable[[], str]:
    """Return what makes such a word, valid from now on. It raises Refused where the key cannot be used."""

    def sign() -> str:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import RSAKey

        issued = int(now()) - _BEGINS_BEFORE_S
        claims = {"iss": app_id, "iat": issued, "exp": issued + _LASTS_S}
        try:
            key = RSAKey.import_key(private_key)
            return jwt.encode({"alg": "RS256"}, claims, key, algorithms=["RS256"])
        except (JoseError, ValueError, TypeError) as error:
            raise refuse_key(error) from None

    return sign
