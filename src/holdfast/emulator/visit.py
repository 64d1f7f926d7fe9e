"""One request on its way through the emulator, with everything a route may ask of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holdfast.emulator.exchange import Refusal, Request, not_found
from holdfast.emulator.objects import EMPTY_TREE, CommitRecord, Person
from holdfast.emulator.options import EmulatorOptions, Switches
from holdfast.emulator.repository import GitRepository
from holdfast.emulator.shapes import Links
from holdfast.emulator.shelf import ServedRepository, Sight


@dataclass(frozen=True)
class StaleView:
    """How far behind reads are: branches by `commits`, and the newest ones unreadable by SHA if `hidden`."""

    commits: int = 0
    hidden: bool = False


@dataclass(frozen=True)
class Visit:
    """A request, the state of the account, and the repository that the path names."""

    request: Request
    options: EmulatorOptions
    switches: Switches
    shelf: Sight
    now: float
    rate_overview: Callable[[], dict[str, dict[str, int]]]
    params: Mapping[str, str] = field(default_factory=dict)
    served: ServedRepository | None = None
    stale: StaleView = StaleView()
    head_moves: bool = False

    @property
    def repository(self) -> ServedRepository:
        """The repository that the path names; refuses with 404 if there is none."""
        if self.served is None:
            raise not_found()
        return self.served

    @property
    def git(self) -> GitRepository:
        """The git side of the repository that the path names."""
        return self.repository.git

    @property
    def links(self) -> Links:
        """Maker of the addresses that answers contain."""
        return Links(self.request.base_url, self.repository.full_name)

    @property
    def viewer(self) -> Person:
        """The owner of the token, as author of a commit made now."""
        login = self.options.login
        return Person(login, f"{login}@users.noreply.github.com", int(self.now))

    def read_branch(self, git: GitRepository, ref: str) -> str | None:
        """Return where a full ref name points, as far as reads can see."""
        head = git.read_ref(ref)
        return head if head is None else self._as_seen(git, head)

    def find_commit(self, git: GitRepository, revision: str) -> str | None:
        """Return the commit that a revision names, as far as reads can see."""
        found = git.find_commit(revision)
        if found is None or not self.stale.commits:
            return found
        if any(git.read_ref(name) for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision)):
            return self._as_seen(git, found)
        return None if self.stale.hidden and self._is_recent(git, found) else found

    def _as_seen(self, git: GitRepository, head: str) -> str | None:
        return git.ancestor(head, self.stale.commits) if self.stale.commits else head

    def _is_recent(self, git: GitRepository, sha: str) -> bool:
        heads = [target for _, target in git.list_refs("refs/heads/")]
        recent = {git.ancestor(head, age) for head in heads for age in range(self.stale.commits)}
        return sha in recent

    def refuse_if_read_only(self) -> None:
        """Refuse a write that the token has no permission for."""
        if self.switches.read_only:
            who = "integration" if self.shelf.account else "personal access token"
            raise Refusal(
                403,
                f"Resource not accessible by {who}",
                headers={"x-accepted-github-permissions": "contents=write"},
            )

    def refuse_by_rules(self, branch: str, what: str, contents: Mapping[str, bytes]) -> None:
        """Refuse a commit that protection, a ruleset or push protection forbids; `what` as `create file`."""
        if branch in self.switches.protected_branches:
            raise Refusal(409, f"Could not {what}: Changes must be made through a pull request.")
        if branch in self.switches.ruled_branches:
            raise Refusal(
                409,
                "Repository rule violations found\n\nChanges must be made through a pull request.\n\n",
            )
        marker = self.switches.secret_marker
        if marker and any(marker.encode() in content for content in contents.values()):
            raise _secret_found()

    def move_head_of(self, git: GitRepository, ref: str) -> None:
        """Let a foreign commit land on `ref` now, if a fault asks for it."""
        if not self.head_moves:
            return
        head = git.read_ref(ref)
        person = Person("someone-else", "someone-else@users.noreply.github.com", int(self.now))
        foreign = git.write_commit(
            tree=git.read_commit(head).tree if head else git.edit_tree(EMPTY_TREE, {}),
            parents=[head] if head else [],
            author=person,
            committer=person,
            message="Commit by someone else",
        )
        git.move_ref(ref, foreign, head)

    def read_commit(self, revision: str) -> CommitRecord:
        """Return the commit that a revision names, or refuse with 404."""
        sha = self.find_commit(self.git, revision)
        if sha is None:
            raise not_found(f"No commit found for the ref {revision}")
        return self.git.read_commit(sha)


def _secret_found() -> Refusal:
    placeholder = {"placeholder_id": "emulated-placeholder", "token_type": "emulated_secret"}
    return Refusal(
        409,
        "Repository rule violations found\n\nSecret detected in content\n\n",
        extra={"metadata": {"secret_scanning": {"bypass_placeholders": [placeholder]}}},
    )
