"""Makes the bench importable: it is no part of the package that the environment has installed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))
