from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import Outage
from holdfast.settings import Settings
from holdfast.sidecar.watch import sample_of
from holdfast.status import overview


@pytest.fixture
def hf(tmp_path: Path) -> Any:
    with Holdfast(Settings.from_environment({}, {"data_dir": tmp_path, "min_free_bytes": 0})) as holdfast:
        yield holdfast


def test_in_short_it_says_the_same_without_listing_what_waits(
    hf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembly = hf._assembly
    for number in range(3):
        hf.save(f"run-{number}", {"number": number})
    outage = Outage("server", "it answered 503", "wait", since=1.0, retry_at=2.0)
    assembly.spool.note(OUTAGE_NOTE, outage.to_bytes())
    whole = overview(assembly)
    monkeypatch.setattr(assembly.spool, "pending", lambda: pytest.fail("what waits was listed"))

    in_short = overview(assembly, in_short=True)

    assert in_short.keys() == whole.keys()
    expected = replace(sample_of(whole, 0.0, 0), oldest_age_s=in_short["spool"]["oldest_age_s"])
    assert sample_of(in_short, 0.0, 0) == expected
    assert (expected.depth, expected.outage) == (3, outage.sentence)
