import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.emulator.objects import EMPTY_TREE, BlockedPath, MissingPath, Person
from holdfast.emulator.repository import GitRepository, RefMoved, RepositoryUnusable
from holdfast.emulator.trees import FILE_MODE, TREE_MODE, TreeEntry, TreeListing

ADA = Person("Ada <Lovelace>\n", "ada@example.org", 1_700_000_000, 90)


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.create(tmp_path / "x.git")


def git(repository: GitRepository, *arguments: str, stdin: str | None = None) -> str:
    command = ["git", "-C", str(repository.folder), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, text=True).stdout


def file(repository: GitRepository, content: bytes) -> TreeEntry:
    return TreeEntry("", FILE_MODE, repository.write_blob(content))


def commit(repository: GitRepository, tree: str, *parents: str, message: str = "m") -> str:
    return repository.write_commit(tree=tree, parents=parents, author=ADA, committer=ADA, message=message)


def test_fresh_repository_is_empty_with_main_as_default(repository: GitRepository) -> None:
    assert repository.is_empty()
    assert repository.default_branch == "main"
    assert repository.list_refs() == []


def test_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryUnusable, match="not a usable git repository"):
        GitRepository(tmp_path)


def test_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.git").write_text("a file")

    with pytest.raises(RepositoryUnusable):
        GitRepository.create(tmp_path / "x.git")


def test_trees_are_sorted_as_git_sorts_them(repository: GitRepository) -> None:
    names = ["a.b", "a/x", "a-b", "a0", "é", "Z", "a/.hidden"]
    tree = repository.edit_tree(None, {name: file(repository, name.encode()) for name in names})

    listed = git(repository, "ls-tree", tree)

    assert git(repository, "mktree", stdin=listed).strip() == tree
    assert sorted(path for path, entry in repository.walk_tree(tree) if entry.kind == "blob") == sorted(names)


def test_large_tree_is_stored_as_git_expects(repository: GitRepository) -> None:
    entry = file(repository, b"x")
    tree = repository.edit_tree(None, {f"cp_{number:05d}.json": entry for number in range(3000)})

    edited = repository.edit_tree(tree, {"cp_01500.json": None, "zz.json": entry})

    assert len(git(repository, "ls-tree", edited).splitlines()) == 3000
    assert git(repository, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("size", [0, 1, 3990, 4000, 70_000])
def test_content_of_any_size_is_read_by_plain_git(repository: GitRepository, size: int) -> None:
    sha = repository.write_blob(b"x" * size)

    assert git(repository, "cat-file", "blob", sha) == "x" * size
    assert repository.describe(sha) == ("blob", size)


def test_edit_reports_what_cannot_be_removed_or_entered(repository: GitRepository) -> None:
    tree = repository.edit_tree(None, {"a": file(repository, b"x")})

    with pytest.raises(MissingPath, match="b/c"):
        repository.edit_tree(tree, {"b/c": None})
    with pytest.raises(BlockedPath, match="a"):
        repository.edit_tree(tree, {"a/b": file(repository, b"y")})


def test_removing_the_last_file_leaves_the_empty_tree(repository: GitRepository) -> None:
    tree = repository.edit_tree(None, {"a/b/c": file(repository, b"x")})

    assert repository.edit_tree(tree, {"a/b/c": None}) == EMPTY_TREE


def test_commit_reads_back_as_written(repository: GitRepository) -> None:
    sha = commit(repository, repository.edit_tree(None, {}), message="Größe\n\nbody\n")

    record = repository.read_commit(sha)

    assert record.message == "Größe\n\nbody\n"
    assert record.author == Person("Ada Lovelace", "ada@example.org", 1_700_000_000, 90)
    assert git(repository, "show", "-s", "--format=%aI", sha).strip() == "2023-11-14T23:43:20+01:30"


def test_ref_moves_only_from_where_it_is_expected(repository: GitRepository) -> None:
    first = commit(repository, EMPTY_TREE)
    second = commit(repository, EMPTY_TREE, first)
    repository.move_ref("refs/heads/main", first, None)

    with pytest.raises(RefMoved) as caught:
        repository.move_ref("refs/heads/main", second, second)
    with pytest.raises(RefMoved):
        repository.move_ref("refs/heads/main", second, None)
    repository.move_ref("refs/heads/main", second, first)

    assert (caught.value.expected, caught.value.found) == (second, first)
    assert repository.read_ref("refs/heads/main") == second


def test_refs_survive_packing_by_plain_git(repository: GitRepository) -> None:
    first = commit(repository, repository.edit_tree(None, {"a": file(repository, b"x")}))
    repository.move_ref("refs/heads/main", first, None)
    git(repository, "gc", "-q")
    second = commit(repository, EMPTY_TREE, first)

    assert repository.read_ref("refs/heads/main") == first
    repository.move_ref("refs/heads/main", second, first)
    assert repository.read_blob(repository.write_blob(b"x")) == b"x"
    repository.delete_ref("refs/heads/main", second)

    assert repository.read_ref("refs/heads/main") is None
    assert repository.is_empty()


def test_ref_below_another_ref_is_refused(repository: GitRepository) -> None:
    sha = commit(repository, EMPTY_TREE)
    repository.move_ref("refs/heads/a", sha, None)

    with pytest.raises(BlockedPath):
        repository.move_ref("refs/heads/a/b", sha, None)


def test_two_openings_of_one_folder_see_each_others_writes(repository: GitRepository) -> None:
    other = GitRepository(repository.folder)
    tree = repository.edit_tree(None, {"a": file(repository, b"x")})
    first = commit(repository, tree)
    repository.move_ref("refs/heads/main", first, None)

    assert other.read_ref("refs/heads/main") == first
    assert other.find_entry(other.read_commit(first).tree, "a") is not None
    other.move_ref("refs/heads/main", commit(other, tree, first), first)
    with pytest.raises(RefMoved):
        repository.move_ref("refs/heads/main", first, first)


HOLD_LOCK = """
import sys, pathlib
from holdfast.emulator.repository import GitRepository
with GitRepository(pathlib.Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.processes
def test_lock_keeps_other_processes_out_and_ends_with_its_holder(repository: GitRepository) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(repository.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        handle = os.open(repository.folder / "holdfast-emulator.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        holder.send_signal(signal.SIGKILL)

    with repository.locked():
        repository.move_ref("refs/heads/main", commit(repository, EMPTY_TREE), None)


def test_stale_lock_file_of_git_does_not_block_a_ref(repository: GitRepository) -> None:
    first = commit(repository, EMPTY_TREE)
    repository.move_ref("refs/heads/main", first, None)
    (repository.folder / "refs/heads/main.lock").touch()

    repository.move_ref("refs/heads/main", commit(repository, EMPTY_TREE, first), first)

    assert repository.read_ref("refs/heads/main") != first


def test_history_of_a_path_holds_only_commits_that_changed_it(repository: GitRepository) -> None:
    one = commit(repository, repository.edit_tree(None, {"a": file(repository, b"1")}), message="one")
    tree = repository.edit_tree(repository.read_commit(one).tree, {"d/b": file(repository, b"2")})
    two = commit(repository, tree, one, message="two")
    three = commit(repository, repository.edit_tree(tree, {"a": None}), two, message="three")

    assert [record.message for record in repository.history(three)] == ["three", "two", "one"]
    assert [record.message for record in repository.history(three, "a")] == ["three", "one"]
    assert [record.message for record in repository.history(three, "d")] == ["two"]
    assert [record.message for record in repository.history_beyond(three, one)] == ["three", "two"]


def test_ancestry_is_told_apart(repository: GitRepository) -> None:
    one = commit(repository, EMPTY_TREE, message="one")
    two = commit(repository, EMPTY_TREE, one, message="two")
    side = commit(repository, EMPTY_TREE, one, message="side")
    alone = commit(repository, EMPTY_TREE, message="alone")

    assert repository.is_ancestor(one, two)
    assert not repository.is_ancestor(two, one)
    assert repository.ahead_behind(two, side) == (1, 1)
    assert repository.merge_base(two, side) == one
    assert repository.merge_base(two, alone) is None
    assert repository.ancestor(two, 1) == one
    assert repository.ancestor(two, 5) is None


def test_tree_listing_replaces_a_folder_by_a_file_of_the_same_name() -> None:
    folder = TreeEntry("a", TREE_MODE, EMPTY_TREE)
    listing = TreeListing.empty().with_entry(folder).with_entry(TreeEntry("a", FILE_MODE, "1" * 40))

    assert [entry.kind for entry in listing] == ["blob"]
    assert list(TreeListing.parse(listing.encode())) == list(listing)
    assert len(listing.without("a")) == 0
    assert listing.without("b") is listing
