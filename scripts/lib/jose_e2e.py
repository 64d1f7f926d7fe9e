"""Save a sealed and signed checkpoint on the embedded GitHub, and have npm's jose open it.

Called by scripts/jose-e2e in a folder where jose is installed, with the program that opens.
"""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from holdfast import Holdfast
from holdfast.jsontext.members import parse_document
from holdfast.security.jose import make_recipient_key, make_shared_key, make_signing_key, public_half
from holdfast.settings import Settings

STATE = {"text": "é\U0001f600", "numbers": [1, 2.5], "none": None}


def main() -> int:
    """Try each kind of key. Returns 1 if the other side reads anything else."""
    here, program = Path.cwd(), sys.argv[1]
    signing = make_signing_key()
    for kind, key in (("shared", make_shared_key()), ("recipient", make_recipient_key())):
        files = {
            "checkpoint.json": _store(here / kind, key, signing),
            "encryption.json": json.dumps(key).encode(),
            "signing.json": json.dumps(public_half(signing)).encode(),
        }
        files["payload.json"] = parse_document(files["checkpoint.json"]).canonical_without("integrity")
        for name, content in files.items():
            (here / name).write_bytes(content)
        opened = subprocess.run(["node", program, *files], stdout=subprocess.PIPE, check=True)
        if json.loads(opened.stdout)["state"] != STATE:
            print(f"a {kind} key opened something else: {opened.stdout.decode()}")
            return 1
        print(f"scripts/jose-e2e: jose opened what a {kind} key sealed, and verified its signature")
    return 0


def _store(folder: Path, key: dict[str, str], signing: dict[str, str]) -> bytes:
    """Return `latest.json` as plain git shows it."""
    environment = {
        "HOLDFAST_DATA_DIR": str(folder),
        "HOLDFAST_ENCRYPTION_KEY": json.dumps(public_half(key)),
        "HOLDFAST_SIGNING_KEY": json.dumps(signing),
    }
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        holdfast.save("r", STATE)
        holdfast.drain()
    repository = folder / "github" / "holdfast" / "checkpoints.git"
    shown = ["git", "--git-dir", str(repository), "show", "checkpoints:checkpoints/r/latest.json"]
    return subprocess.run(shown, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
