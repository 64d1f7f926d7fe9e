"""What the one who resumes must give anew: values that were taken out because they are credentials."""

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Envelope
from holdfast.format.redacted import REDACTED_MEMBER, parse_redacted
from holdfast.jsontext.members import parse_document

_NAME = b'"%b"' % REDACTED_MEMBER.encode()


def tell_redacted(envelope: Envelope) -> list[str]:
    """Return a warning for each value that was taken out of a checkpoint."""
    if _NAME not in envelope.content:
        return []
    try:
        places = parse_redacted(parse_document(envelope.content).members.get(REDACTED_MEMBER, b"[]"))
    except InvalidCheckpoint:
        return []  # another program's own field
    return [f"{place.path}: a credential ({place.kind}) was taken out here; give it anew" for place in places]
