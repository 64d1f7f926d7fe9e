"""A GitHub App of tests: its key pair, made once, and its registration at an emulator."""

from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from holdfast.emulator import AppRegistration

APP_ID = 4711


@cache
def key_pair(number: int = 0) -> tuple[str, str]:
    """Return a private key and the public one that belongs to it; another pair for each number."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return secret.decode(), public.decode()


def registration(**installations: int) -> AppRegistration:
    return AppRegistration(APP_ID, key_pair()[1], installations or {"acme": 77})
