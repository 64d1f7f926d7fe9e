"""Where an App is installed, told in text."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from holdfast.emulator.apps import AppRegistration


@dataclass(frozen=True)
class Installation:
    """Where an App is installed: an account, perhaps with a repository to be made there.

    The number 0 stands for the next free one, no limit for that of the options.
    """

    account: str
    repository: str = ""
    number: int = 0
    limit: int | None = None


_INSTALLATION = re.compile(
    r"(?P<account>[A-Za-z0-9][A-Za-z0-9-]*)(?P<repository>/[A-Za-z0-9._-]+)?"
    r"(?::id=(?P<number>[1-9]\d{0,8}))?(?::limit=(?P<limit>\d{1,9}))?"
)


def parse_installation(text: str) -> Installation:
    """Return what a text such as `acme/state:id=3:limit=12500` means; all but the account may be left out.

    Raises ValueError.
    """
    found = _INSTALLATION.fullmatch(text)
    if found is None:
        raise ValueError(f"installation {text!r}: use OWNER[/NAME][:id=N][:limit=N]")
    name, limit = found["repository"], found["limit"]
    return Installation(
        found["account"],
        found["account"] + name if name else "",
        int(found["number"] or 0),
        int(limit) if limit else None,
    )


def register_app(app_id: int, key: str, installations: Sequence[Installation]) -> AppRegistration:
    """Return the App that is installed there; those without a number get the next free one.

    Its tokens outlast a restart. Raises ValueError if two are alike, or the key is none.
    """
    taken = {each.number for each in installations}
    free = (number for number in count(1) if number not in taken)
    numbered = [replace(each, number=each.number or next(free)) for each in installations]
    for names in ([each.account.lower() for each in numbered], [each.number for each in numbered]):
        if len(set(names)) < len(names):
            raise ValueError(
                "an App is installed once in each account, by an id of its own: one is here twice"
            )
    app = AppRegistration(
        app_id,
        key,
        {each.account: each.number for each in numbered},
        {each.number: each.limit for each in numbered if each.limit is not None},
        secret=hashlib.sha256(key.encode()).digest(),
    )
    app.check_key()
    return app
