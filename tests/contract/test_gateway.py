"""What every gateway promises, whatever it is made of."""

import pytest

from holdfast.errors import Conflict, GatewayError, Missing, Refused
from holdfast.format.git_ids import blob_sha
from holdfast.github.calls import (
    Call,
    Gateway,
    ListFolder,
    ReadBlob,
    ReadBlobs,
    ReadFile,
    ReadHead,
    ReadHeadIfChanged,
    ReadPage,
    ReadTree,
)
from holdfast.github.inspection import CountCommits, ReadCommit, ReadHistory, ReadReplacedHead, ReadRepository
from holdfast.github.listing import read_snapshot
from holdfast.github.results import File, Signature
from holdfast.github.write_calls import (
    CommitFiles,
    CreateBranch,
    DeleteFile,
    MoveBranch,
    ReplaceBranch,
    Revision,
    WriteCommit,
    WriteFile,
    WriteTree,
)

NO_SHA = "0123456789012345678901234567890123456789"


@pytest.fixture
def started(gateway: Gateway) -> Gateway:
    """A repository with one commit on its default branch."""
    gateway.perform(WriteFile("README.md", b"hello\n", "First", branch=""))
    return gateway


def write(gateway: Gateway, path: str, content: bytes, expected_sha: str | None = None) -> Revision:
    return gateway.perform(WriteFile(path, content, f"Write {path}", "main", expected_sha))


def test_repository_names_its_default_branch_and_that_we_may_write(gateway: Gateway) -> None:
    record = gateway.perform(ReadRepository())

    assert record.default_branch == "main"
    assert record.can_write
    assert record.html_url.endswith(record.full_name)


@pytest.mark.parametrize(
    "call",
    [
        ReadHead("main"),
        ReadHeadIfChanged("main", etag='W/"0"'),
        ReadFile("a.json", "main"),
        ListFolder("runs", "main"),
        ReadTree(NO_SHA),
        ReadCommit(NO_SHA),
        ReadBlob(NO_SHA),
        ReadPage("main", ("a.json",)),
    ],
    ids=lambda call: type(call).__name__,
)
def test_empty_repository_has_nothing_to_read(gateway: Gateway, call: Call[object]) -> None:
    with pytest.raises(Missing):
        gateway.perform(call)


def test_first_tree_of_an_empty_repository_is_told_that_it_is_empty(gateway: Gateway) -> None:
    with pytest.raises(Conflict) as caught:
        gateway.perform(WriteTree({"a.json": "{}"}))

    assert caught.value.kind == "exists"


def test_write_without_a_branch_begins_an_empty_repository(gateway: Gateway) -> None:
    revision = gateway.perform(WriteFile("README.md", b"hello\n", "First", branch=""))

    assert gateway.perform(ReadHead("main")) == revision.commit_sha
    assert gateway.perform(ReadCommit(revision.commit_sha)).parent_shas == ()


def test_written_file_is_read_by_branch_and_by_commit(started: Gateway) -> None:
    revision = write(started, "runs/a/cp_001.json", b'{"a": 1}')

    by_branch = started.perform(ReadFile("runs/a/cp_001.json", "main"))
    by_commit = started.perform(ReadFile("runs/a/cp_001.json", revision.commit_sha, is_fresh=True))

    assert by_branch == by_commit
    assert by_branch.content == b'{"a": 1}'
    assert by_branch.blob_sha == blob_sha(b'{"a": 1}')
    assert revision.blob_shas == {"runs/a/cp_001.json": by_branch.blob_sha}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"message": "Not Found"}', b"\x00\xff\r\n", b"x" * 1_500_000]
)
def test_content_comes_back_byte_for_byte(started: Gateway, content: bytes) -> None:
    revision = write(started, "runs/content", content)

    assert started.perform(ReadFile("runs/content", revision.commit_sha)).content == content
    assert started.perform(ReadBlob(blob_sha(content))) == content


@pytest.mark.parametrize(
    "name", ["a b.json", "50%.json", "q?x=1.json", "h#1.json", "ünïcode.json", "a+b&c.json"]
)
def test_names_that_mean_something_in_a_url_are_plain_names(started: Gateway, name: str) -> None:
    write(started, f"runs/{name}", b"{}")

    assert started.perform(ReadFile(f"runs/{name}", "main")).content == b"{}"
    assert [entry.path for entry in started.perform(ListFolder("runs", "main")).entries] == [name]


def test_update_needs_the_blob_that_is_there(started: Gateway) -> None:
    first = write(started, "a.json", b"1").blob_shas["a.json"]

    second = write(started, "a.json", b"2", expected_sha=first)

    assert started.perform(ReadFile("a.json", second.commit_sha)).content == b"2"
    assert started.perform(ReadCommit(second.commit_sha)).message == "Write a.json"


def test_new_file_where_there_is_one_is_a_conflict(started: Gateway) -> None:
    write(started, "a.json", b"1")

    with pytest.raises(Conflict) as caught:
        write(started, "a.json", b"2")

    assert (caught.value.kind, caught.value.path) == ("exists", "a.json")
    assert started.perform(ReadFile("a.json", "main")).content == b"1"


def test_update_of_a_file_that_changed_is_a_conflict(started: Gateway) -> None:
    stale = write(started, "a.json", b"1").blob_shas["a.json"]
    write(started, "a.json", b"2", expected_sha=stale)

    with pytest.raises(Conflict) as caught:
        write(started, "a.json", b"3", expected_sha=stale)

    assert (caught.value.kind, caught.value.path) == ("stale_file", "a.json")
    assert started.perform(ReadFile("a.json", "main")).content == b"2"


def test_update_of_a_file_that_vanished_makes_it_again(started: Gateway) -> None:
    write(started, "a.json", b"1", expected_sha=NO_SHA)

    assert started.perform(ReadFile("a.json", "main")).content == b"1"


def test_write_to_a_missing_branch_is_missing(started: Gateway) -> None:
    with pytest.raises(Missing):
        started.perform(WriteFile("a.json", b"1", "m", branch="elsewhere"))


def test_each_write_is_one_commit_on_the_one_before(started: Gateway) -> None:
    before = started.perform(ReadHead("main"))

    revision = write(started, "a.json", b"1")

    assert started.perform(ReadHead("main")) == revision.commit_sha
    assert started.perform(ReadCommit(revision.commit_sha)).parent_shas == (before,)


def test_old_commit_still_shows_what_was_there(started: Gateway) -> None:
    old = write(started, "a.json", b"1")
    write(started, "a.json", b"2", expected_sha=old.blob_shas["a.json"])

    assert started.perform(ReadFile("a.json", old.commit_sha)).content == b"1"


def test_deleted_file_is_gone_from_the_branch(started: Gateway) -> None:
    sha = write(started, "a.json", b"1").blob_shas["a.json"]

    revision = started.perform(DeleteFile("a.json", "Delete", "main", sha))

    assert started.perform(ReadHead("main")) == revision.commit_sha
    with pytest.raises(Missing):
        started.perform(ReadFile("a.json", "main"))


def test_delete_of_a_file_that_changed_is_a_conflict(started: Gateway) -> None:
    write(started, "a.json", b"1")

    with pytest.raises(Conflict) as caught:
        started.perform(DeleteFile("a.json", "Delete", "main", NO_SHA))

    assert caught.value.kind == "stale_file"


@pytest.mark.parametrize(
    "call",
    [
        ReadFile("nothing.json", "main"),
        ReadFile("runs", "main"),
        ReadFile("README.md", "elsewhere"),
        ListFolder("nothing", "main"),
        ListFolder("README.md", "main"),
        ReadHead("elsewhere"),
        ReadCommit(NO_SHA),
        ReadTree(NO_SHA),
        ReadBlob(NO_SHA),
        DeleteFile("nothing.json", "Delete", "main", NO_SHA),
        CreateBranch("other", NO_SHA),
        CommitFiles("elsewhere", NO_SHA, "Headline", "", {"a.json": b"1"}),
        ReadPage("elsewhere", ("a.json",)),
    ],
    ids=repr,
)
def test_what_is_not_there_is_missing(started: Gateway, call: Call[object]) -> None:
    write(started, "runs/a.json", b"1")

    with pytest.raises(Missing):
        started.perform(call)


def test_folder_lists_its_own_entries(started: Gateway) -> None:
    write(started, "runs/a/1.json", b"one")
    write(started, "runs/b.json", b"three")

    listing = started.perform(ListFolder("runs", "main"))

    assert listing.is_complete
    assert [(entry.path, entry.kind) for entry in listing.entries] == [("a", "folder"), ("b.json", "file")]
    assert listing.entries[1].sha == blob_sha(b"three")
    assert listing.entries[1].size_bytes == 5


def test_root_is_a_folder_too(started: Gateway) -> None:
    assert [entry.path for entry in started.perform(ListFolder("", "main")).entries] == ["README.md"]


def test_folder_is_cut_off_at_a_thousand_entries_but_the_tree_is_not(started: Gateway) -> None:
    files: dict[str, str | None] = {f"runs/{number:04d}.json": str(number) for number in range(1001)}
    commit_sha = started.perform(WriteCommit(started.perform(WriteTree(files)), "Many"))

    listing = started.perform(ListFolder("runs", commit_sha))
    tree = started.perform(ReadTree(commit_sha, is_recursive=True))

    assert (len(listing.entries), listing.is_complete) == (1000, False)
    assert tree.is_complete
    assert sum(entry.kind == "file" for entry in tree.entries) == 1001


def test_tree_is_read_by_commit_and_by_its_own_sha(started: Gateway) -> None:
    revision = write(started, "runs/a/1.json", b"one")

    top = started.perform(ReadTree(revision.commit_sha))
    folder = next(entry for entry in top.entries if entry.path == "runs")

    assert [(entry.path, entry.kind) for entry in top.entries] == [("README.md", "file"), ("runs", "folder")]
    assert [entry.path for entry in started.perform(ReadTree(folder.sha)).entries] == ["a"]
    assert started.perform(ReadCommit(revision.commit_sha)).tree_sha != folder.sha


def test_recursive_tree_lists_everything_below(started: Gateway) -> None:
    revision = write(started, "runs/a/1.json", b"one")

    tree = started.perform(ReadTree(revision.commit_sha, is_recursive=True))

    found = {entry.path: entry for entry in tree.entries}
    assert set(found) == {"README.md", "runs", "runs/a", "runs/a/1.json"}
    assert found["runs/a/1.json"].sha == blob_sha(b"one")
    assert found["runs/a/1.json"].size_bytes == 3


def test_branch_can_begin_without_a_parent(started: Gateway) -> None:
    tree_sha = started.perform(WriteTree({"checkpoints/README.md": "kept here\n"}))
    commit_sha = started.perform(WriteCommit(tree_sha, "Begin"))
    started.perform(CreateBranch("checkpoints", commit_sha))

    commit = started.perform(ReadCommit(started.perform(ReadHead("checkpoints"))))
    listing = started.perform(ReadTree(commit.tree_sha, is_recursive=True))

    assert (commit.sha, commit.parent_shas) == (commit_sha, ())
    assert [entry.path for entry in listing.entries] == ["checkpoints", "checkpoints/README.md"]
    assert commit.tree_sha == tree_sha


def test_branch_that_is_there_cannot_be_made_again(started: Gateway) -> None:
    with pytest.raises(Conflict) as caught:
        started.perform(CreateBranch("main", started.perform(ReadHead("main"))))

    assert caught.value.kind == "exists"


def test_branch_with_a_slash_is_one_branch(started: Gateway) -> None:
    head = started.perform(ReadHead("main"))
    started.perform(CreateBranch("state/checkpoints", head))

    started.perform(WriteFile("a.json", b"1", "m", "state/checkpoints"))

    assert started.perform(ReadHead("state/checkpoints")) != head
    assert started.perform(ReadFile("a.json", "state/checkpoints")).content == b"1"


def test_tree_on_top_of_another_keeps_replaces_and_deletes(started: Gateway) -> None:
    write(started, "old.json", b"1")
    base = started.perform(ReadCommit(started.perform(ReadHead("main")))).tree_sha

    tree_sha = started.perform(WriteTree({"old.json": None, "new.json": "2"}, base_tree_sha=base))

    assert [entry.path for entry in started.perform(ReadTree(tree_sha)).entries] == ["README.md", "new.json"]


def test_deleting_what_is_not_in_the_tree_is_refused(started: Gateway) -> None:
    base = started.perform(ReadCommit(started.perform(ReadHead("main")))).tree_sha

    with pytest.raises(Refused):
        started.perform(WriteTree({"nothing.json": None}, base_tree_sha=base))


def test_commit_writes_and_deletes_many_files_at_once(started: Gateway) -> None:
    head = write(started, "old.json", b"0").commit_sha
    additions = {"runs/1.json": b"one", "runs/ü 2.json": b"\x00\xfftwo", "README.md": b"changed"}

    revision = started.perform(CommitFiles("main", head, "Headline", "Body", additions, ("old.json",)))

    commit = started.perform(ReadCommit(revision.commit_sha))
    tree = started.perform(ReadTree(revision.commit_sha, is_recursive=True))
    assert started.perform(ReadHead("main")) == revision.commit_sha
    assert (commit.parent_shas, commit.message) == ((head,), "Headline\n\nBody")
    assert revision.blob_shas == {path: blob_sha(content) for path, content in additions.items()}
    assert {entry.path: entry.sha for entry in tree.entries if entry.kind == "file"} == revision.blob_shas


def test_commit_without_a_body_has_only_its_headline(started: Gateway) -> None:
    head = started.perform(ReadHead("main"))

    revision = started.perform(CommitFiles("main", head, "Headline", "", {"a.json": b"1"}))

    assert started.perform(ReadCommit(revision.commit_sha)).message == "Headline"


def test_commit_on_a_head_that_moved_is_a_conflict_and_changes_nothing(started: Gateway) -> None:
    stale = started.perform(ReadHead("main"))
    head = write(started, "a.json", b"1").commit_sha

    with pytest.raises(Conflict) as caught:
        started.perform(CommitFiles("main", stale, "Headline", "", {"b.json": b"2"}))

    assert (caught.value.kind, started.perform(ReadHead("main"))) == ("head_moved", head)


def test_commit_that_deletes_what_is_not_there_is_a_conflict_and_changes_nothing(started: Gateway) -> None:
    head = started.perform(ReadHead("main"))

    with pytest.raises(Conflict) as caught:
        started.perform(CommitFiles("main", head, "Headline", "", {"b.json": b"2"}, ("nothing.json",)))

    assert (caught.value.kind, started.perform(ReadHead("main"))) == ("stale_file", head)


def test_snapshot_reads_head_and_files_together(started: Gateway) -> None:
    write(started, "runs/ü.json", b'{"a": "\xc3\xbc"}')
    head = write(started, "runs/binary", b"\x00\x01\xff").commit_sha

    snapshot = read_snapshot(started, "main", ("runs/ü.json", "runs/binary", "nothing.json", "runs"))

    assert snapshot.head_sha == head
    assert snapshot.files["nothing.json"] is None
    assert snapshot.files["runs"] is None
    contents = {path: file.content for path, file in snapshot.files.items() if file}
    assert contents == {"runs/ü.json": b'{"a": "\xc3\xbc"}', "runs/binary": b"\x00\x01\xff"}
    assert all(file.blob_sha == blob_sha(file.content) for file in snapshot.files.values() if file)


def test_brief_snapshot_has_files_whole_and_of_folders_the_names(started: Gateway) -> None:
    write(started, "runs/a.json", b"1")
    write(started, "runs/parts/b.json", b"2")

    snapshot = read_snapshot(started, "main", ("runs", "runs/a.json", "nothing"), is_brief=True)

    assert snapshot.folders == {"runs": {"a.json": "", "parts": ""}}
    assert snapshot.files["runs/a.json"] == File(b"1", blob_sha(b"1"))
    assert snapshot.files["nothing"] is None


def test_snapshot_of_no_files_is_the_head(started: Gateway) -> None:
    assert read_snapshot(started, "main", ()).head_sha == started.perform(ReadHead("main"))


def test_snapshot_holds_more_files_than_one_query_asks_for(started: Gateway) -> None:
    files = {f"runs/{number}.json": str(number).encode() for number in range(230)}
    head = started.perform(ReadHead("main"))
    revision = started.perform(CommitFiles("main", head, "Many", "", files))

    snapshot = read_snapshot(started, "main", tuple(files))

    assert snapshot.head_sha == revision.commit_sha
    assert {path: file.content for path, file in snapshot.files.items() if file} == files


def test_every_failure_is_a_gateway_error_that_names_what_it_is_about(started: Gateway) -> None:
    with pytest.raises(GatewayError) as caught:
        started.perform(ReadFile("nothing.json", "main"))

    assert caught.value.path == "nothing.json"
    assert caught.value.reason


def test_head_is_told_again_only_once_it_has_changed(started: Gateway) -> None:
    first = started.perform(ReadHeadIfChanged("main"))
    again = started.perform(ReadHeadIfChanged("main", first.etag))
    moved = write(started, "a.json", b"1")
    changed = started.perform(ReadHeadIfChanged("main", again.etag))

    assert first.sha == started.perform(ReadCommit(first.sha or "")).sha
    assert (again.sha, again.etag) == (None, first.etag)
    assert changed.sha == moved.commit_sha
    assert changed.etag != first.etag


def test_write_and_delete_name_the_commit_that_they_were_made_on(started: Gateway) -> None:
    before = started.perform(ReadHead("main"))

    written = write(started, "a.json", b"{}")
    deleted = started.perform(DeleteFile("a.json", "Delete", "main", blob_sha(b"{}")))

    assert (written.parent_sha, deleted.parent_sha) == (before, written.commit_sha)


def test_blobs_are_read_together_by_their_shas(started: Gateway) -> None:
    small, large = [b"{}", b'"\xc3\xa9"\n'], [b"\xff\x00 binary", b"x" * 700_000]
    for number, content in enumerate([*small, *large]):
        write(started, f"{number}.json", content)

    found = started.perform(ReadBlobs(tuple(blob_sha(content) for content in [*small, *large])))

    for content in small:
        assert found.pop(blob_sha(content)) == content
    assert found.items() <= {blob_sha(content): content for content in large}.items()


def test_blob_that_is_not_there_is_missing_among_others_too(started: Gateway) -> None:
    with pytest.raises(Missing) as caught:
        started.perform(ReadBlobs((blob_sha(b"hello\n"), NO_SHA)))

    assert caught.value.path == NO_SHA


def test_history_is_read_in_pages_and_counted(started: Gateway) -> None:
    tree_sha = started.perform(ReadCommit(started.perform(ReadHead("main")))).tree_sha
    head = ""
    made = []
    for number in range(101):
        head = started.perform(WriteCommit(tree_sha, f"Commit {number}", (head,) if head else ()))
        made.append(head)
    started.perform(CreateBranch("long", head))

    first, second = (started.perform(ReadHistory(head, page)) for page in (1, 2))

    assert [commit.sha for commit in (*first, *second)] == made[::-1]
    assert (len(first), len(second)) == (100, 1)
    assert first[0].tree_sha == tree_sha
    assert started.perform(CountCommits("long")) == 101


def test_history_ends_at_a_moment(started: Gateway) -> None:
    tree_sha = started.perform(WriteTree({"a.txt": "a"}))
    days = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
    head, made = "", []
    for day in days:
        someone = Signature("Someone", "someone@example.com", day)
        head = started.perform(WriteCommit(tree_sha, day, (head,) if head else (), someone, someone))
        made.append(head)

    found = started.perform(ReadHistory(head, until="2026-01-02T12:00:00.000Z"))

    assert [commit.sha for commit in found] == made[1::-1]
    assert started.perform(ReadHistory(head, until="2025-12-31T00:00:00.000Z")) == ()


def test_commit_keeps_the_people_and_dates_that_it_is_given(started: Gateway) -> None:
    tree_sha = started.perform(ReadCommit(started.perform(ReadHead("main")))).tree_sha
    author = Signature("Ada", "ada@example.com", "2026-11-01T10:00:00Z")
    committer = Signature("Bob", "bob@example.com", "2026-11-02T10:00:00Z")

    sha = started.perform(WriteCommit(tree_sha, "Made again", (), author, committer))

    record = started.perform(ReadCommit(sha))
    assert (record.author, record.committer) == (author, committer)


def test_branch_moves_forward_to_a_commit_on_top_of_it(started: Gateway) -> None:
    head = started.perform(ReadHead("main"))
    commit_sha = started.perform(WriteCommit(started.perform(ReadCommit(head)).tree_sha, "Next", (head,)))

    started.perform(MoveBranch("main", commit_sha))

    assert started.perform(ReadHead("main")) == commit_sha


def test_head_that_a_forced_move_replaced_is_told(started: Gateway) -> None:
    head = started.perform(ReadHead("main"))
    tree_sha = started.perform(WriteTree({"a.txt": "a"}))
    root_sha = started.perform(WriteCommit(tree_sha, "Another history", ()))

    with pytest.raises(Missing):
        started.perform(ReadReplacedHead("main", root_sha))
    started.perform(MoveBranch("main", root_sha, is_forced=True))

    assert started.perform(ReadReplacedHead("main", root_sha)) == head


def test_branch_moves_to_another_history_only_by_force(started: Gateway) -> None:
    head = started.perform(ReadHead("main"))
    commit_sha = started.perform(WriteCommit(started.perform(ReadCommit(head)).tree_sha, "Anew"))

    with pytest.raises(Conflict) as caught:
        started.perform(MoveBranch("main", commit_sha))
    assert caught.value.kind == "head_moved"
    assert started.perform(ReadHead("main")) == head

    started.perform(MoveBranch("main", commit_sha, is_forced=True))
    assert started.perform(ReadHead("main")) == commit_sha


def test_branch_is_replaced_only_if_it_is_where_we_expect_it(started: Gateway) -> None:
    repository_id = started.perform(ReadRepository()).node_id
    head = started.perform(ReadHead("main"))
    commit_sha = started.perform(WriteCommit(started.perform(ReadCommit(head)).tree_sha, "Anew"))
    newer = write(started, "a.json", b"{}").commit_sha

    with pytest.raises(Conflict) as caught:
        started.perform(ReplaceBranch("main", repository_id, head, commit_sha))
    assert caught.value.kind == "head_moved"
    assert started.perform(ReadHead("main")) == newer

    started.perform(ReplaceBranch("main", repository_id, newer, commit_sha))
    assert started.perform(ReadHead("main")) == commit_sha
