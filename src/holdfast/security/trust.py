"""What a reader trusts: checkpoints that are signed as they must be, opened with the keys that are here."""

from dataclasses import dataclass, field

from holdfast.errors import KeyMissing
from holdfast.format.checkpoint import Envelope
from holdfast.security.sealing import Keyring
from holdfast.security.signatures import Signatures


@dataclass(frozen=True)
class Trust:
    """The keys of a reader. Without any, everything is taken as it is stored.

    With `is_lenient`, what is sealed with a key that is not here stays sealed: enough to check all else.
    """

    keyring: Keyring = field(default_factory=Keyring)
    signatures: Signatures = field(default_factory=Signatures)
    is_lenient: bool = False

    def check(self, envelope: Envelope, path: str) -> None:
        """Raise IntegrityFailure unless a checkpoint, as it is stored, is signed as it must be."""
        self.signatures.check(envelope, path)

    def open(self, envelope: Envelope, path: str) -> Envelope:
        """Return a checkpoint with everything in it readable. Raises KeyMissing, IntegrityFailure."""
        try:
            return self.keyring.open(envelope, path)
        except KeyMissing:
            if self.is_lenient:
                return envelope
            raise
