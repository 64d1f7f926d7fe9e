"""Where stored runs are read from: what is asked of GitHub, what is not, and what the local copy knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import IntegrityFailure, Missing, NotInCopy
from holdfast.format.git_ids import blob_sha
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import ListFolder, ReadBlob, ReadFile, ReadHeadIfChanged
from holdfast.github.presence import GraphqlPresence
from holdfast.jsontext.members import sha256_hex
from holdfast.repository.sources import CachedSource, GitHubSource
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import LAYOUT, make_run, with_paths

RUN = make_run("r")
LATEST = LAYOUT.path("r", "latest.json")
PART = b'"a large member"'
PART_PATH = LAYOUT.path("r", f"parts/{sha256_hex(PART)}.json")
FORGED_PATH = LAYOUT.path("r", f"parts/{'0' * 64}.json")


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    parts = {PART_PATH: PART, FORGED_PATH: b"forged"}
    repository.write_as_someone_else(BRANCH, {**with_paths({"r": RUN}), **parts})
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[RepositoryCache]:
    cache = RepositoryCache(tmp_path)
    yield cache
    cache.close()


def github(repository: MemoryGateway, cache: RepositoryCache, *, has_graphql: bool = False) -> GitHubSource:
    presence = GraphqlPresence(VirtualClock()) if has_graphql else None
    return GitHubSource(repository, cache, LAYOUT, BRANCH, graphql=presence)


def file_of(content: bytes) -> RemoteFile:
    return RemoteFile(blob_sha(content), len(content))


def test_what_was_listed_at_this_commit_is_not_listed_again(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    first = github(repository, cache).files("r")
    again = github(repository, cache).files("r")

    assert first.keys() == again.keys() == RUN.keys()
    assert (repository.count(ListFolder), repository.count(ReadHeadIfChanged)) == (1, 2)


def test_a_new_commit_is_listed_anew(repository: MemoryGateway, cache: RepositoryCache) -> None:
    github(repository, cache).files("r")
    repository.write_as_someone_else(BRANCH, {LAYOUT.path("r", "latest.json"): None})

    assert "latest.json" not in github(repository, cache).files("r")


def test_a_run_that_is_not_there_has_no_files(repository: MemoryGateway, cache: RepositoryCache) -> None:
    source = github(repository, cache)

    assert (source.files("unheard-of"), source.part_sizes("unheard-of")) == ({}, {})


def test_ends_are_asked_for_only_where_one_query_tells_them(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    assert github(repository, cache).ends("r").files == {}

    ends = github(repository, cache, has_graphql=True).ends("r", is_proved=True)

    assert ends.files == {name: file_of(RUN[name]) for name in ("index.json", "latest.json")}
    assert ends.highest_number == 3


def test_a_server_without_graphql_is_remembered(repository: MemoryGateway, cache: RepositoryCache) -> None:
    repository.has_graphql = False
    source = github(repository, cache, has_graphql=True)

    assert source.ends("r").files == {}
    assert source.graphql is not None
    assert not source.graphql.is_likely


def test_a_file_is_read_once_and_then_known(repository: MemoryGateway, cache: RepositoryCache) -> None:
    wanted = file_of(RUN["latest.json"])

    assert github(repository, cache).read(LATEST, wanted) == RUN["latest.json"]
    assert github(repository, cache).read(LATEST, wanted) == RUN["latest.json"]
    assert repository.count(ReadBlob) == 1


def test_a_file_that_is_listed_but_gone_is_damage(repository: MemoryGateway, cache: RepositoryCache) -> None:
    with pytest.raises(IntegrityFailure, match="does not have its blob"):
        github(repository, cache).read(LATEST, RemoteFile("0" * 40, 10))


def test_a_file_that_no_writer_makes_so_large_is_not_read(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    source = github(repository, cache)
    source.max_file_bytes = 99

    with pytest.raises(IntegrityFailure, match="it has 100 bytes, and checkpoints here have 99 at most"):
        source.read(LATEST, RemoteFile(blob_sha(RUN["latest.json"]), 100))
    assert repository.calls == []


def test_a_part_is_kept_only_if_it_is_what_its_name_says(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    for _ in range(2):
        assert github(repository, cache).read_part(PART_PATH) == PART
        assert github(repository, cache).read_part(FORGED_PATH) == b"forged"

    assert [call.path for call in repository.calls if isinstance(call, ReadFile)] == [
        PART_PATH,
        FORGED_PATH,
        FORGED_PATH,
    ]


def test_a_part_that_is_gone_is_damage(repository: MemoryGateway, cache: RepositoryCache) -> None:
    with pytest.raises(IntegrityFailure, match="refers to it, but it is not there"):
        github(repository, cache).read_part(LAYOUT.path("r", f"parts/{'1' * 64}.json"))


def test_parts_are_got_together(repository: MemoryGateway, cache: RepositoryCache) -> None:
    other = b'"another"'
    other_path = LAYOUT.path("r", f"parts/{sha256_hex(other)}.json")
    repository.write_as_someone_else(BRANCH, {other_path: other})
    source = github(repository, cache)

    source.fetch_parts([{"$part": path, "sha256": "", "bytes": 9} for path in (PART_PATH, other_path)])

    before = len(repository.calls)
    assert [source.read_part(path) for path in (PART_PATH, other_path)] == [PART, other]
    assert len(repository.calls) == before


def test_without_a_branch_the_caller_is_told(cache: RepositoryCache) -> None:
    with pytest.raises(Missing):
        _ = github(MemoryGateway(), cache).head


def test_the_local_copy_knows_what_was_seen_and_what_the_index_names(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    seen = github(repository, cache, has_graphql=True)
    seen.ends("r")
    copy = CachedSource(cache, LAYOUT)

    assert copy.files("r").keys() == RUN.keys()
    assert copy.read(LATEST, file_of(RUN["latest.json"])) == RUN["latest.json"]
    with pytest.raises(NotInCopy):
        copy.read(LAYOUT.path("r", "cp_001_manual.json"), file_of(RUN["cp_001_manual.json"]))
    with pytest.raises(NotInCopy):
        copy.read_part(PART_PATH)


def test_the_local_copy_does_not_claim_to_know_the_highest_number(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    github(repository, cache, has_graphql=True).ends("r", is_proved=True)

    assert CachedSource(cache, LAYOUT).ends("r", is_proved=True).highest_number is None


def test_an_empty_local_copy_knows_nothing(cache: RepositoryCache) -> None:
    copy = CachedSource(cache, LAYOUT)

    assert (dict(copy.files("r")), copy.has_latest("r")) == ({}, False)
