"""What `holdfast exec` loads before it looks, where the embedded GitHub shows without a server."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.cli.execution import read_at
from holdfast.library import Holdfast
from holdfast.settings import Settings


@pytest.mark.parametrize("is_known", [True, False], ids=["latest is here", "latest is not here"])
def test_github_is_started_before_a_look_that_needs_it_and_else_not_at_all(
    tmp_path: Path, is_known: bool
) -> None:
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    with Holdfast(settings, assembly=(writer := Assembly(settings))) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.drain()
        cache = writer.folder / "cache"
    if not is_known:
        shutil.rmtree(cache)

    with closing(Assembly(settings)) as home:
        seen = home.peek("r")
        assert seen
        reader = read_at(home, *seen)
        is_started_before = "embedded" in vars(home)
        loaded, _ = reader.load_reviewed("r")

        assert is_started_before is not is_known
        assert ("embedded" in vars(home)) is not is_known
        assert (loaded.source, loaded.envelope.sequence) == ("github", 1)
        listing = home.cache.folder("r")
        assert listing is None or listing.commit_sha != seen[0]
