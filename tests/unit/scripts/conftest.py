"""Makes the modules of `scripts/lib` importable, as they are for the scripts."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts" / "lib"))
