"""The JSON shapes of GitHub's answers, complete enough for strict clients."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from holdfast.emulator.exchange import JsonObject
from holdfast.emulator.objects import CommitRecord, Person
from holdfast.emulator.trees import SUBMODULE_MODE, SYMLINK_MODE, TREE_MODE, TreeEntry

UNVERIFIED = {
    "verified": False,
    "reason": "unsigned",
    "signature": None,
    "payload": None,
    "verified_at": None,
}


@dataclass(frozen=True)
class Links:
    """Addresses of one repository's resources."""

    base_url: str
    full_name: str

    @property
    def api(self) -> str:
        """The repository's API address."""
        return f"{self.base_url}/repos/{self.full_name}"

    @property
    def html(self) -> str:
        """The repository's page."""
        return f"{self.base_url}/{self.full_name}"


def format_time(seconds: float) -> str:
    """Return epoch seconds as GitHub writes times.

    >>> format_time(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_id(kind: str, sha: str) -> str:
    """Return a GraphQL id for a git object."""
    return f"{kind}_{sha}"


def content_kind(entry: TreeEntry) -> str:
    """Return what the contents API calls this entry."""
    kinds = {TREE_MODE: "dir", SUBMODULE_MODE: "submodule", SYMLINK_MODE: "symlink"}
    return kinds.get(entry.mode, "file")


def content_shape(links: Links, path: str, entry: TreeEntry, size: int, revision: str) -> JsonObject:
    """Return one member of a directory listing, or a file without its content."""
    kind = content_kind(entry)
    quoted = quote(path)
    url = f"{links.api}/contents/{quoted}?ref={quote(revision, safe='')}"
    page = f"{links.html}/{'tree' if kind == 'dir' else 'blob'}/{quote(revision)}/{quoted}"
    git_url = f"{links.api}/git/{'trees' if kind == 'dir' else 'blobs'}/{entry.sha}"
    download = f"{links.base_url}/raw/{links.full_name}/{quote(revision)}/{quoted}"
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": entry.sha,
        "size": size,
        "url": url,
        "html_url": page,
        "git_url": git_url,
        "download_url": download if kind in {"file", "symlink"} else None,
        "type": kind,
        "_links": {"self": url, "git": git_url, "html": page},
    }


def person_shape(person: Person) -> JsonObject:
    """Return an author or committer."""
    return {"name": person.name, "email": person.email, "date": format_time(person.time)}


def git_commit_shape(links: Links, commit: CommitRecord) -> JsonObject:
    """Return a commit as the git data and the contents API show it."""
    return {
        "sha": commit.sha,
        "node_id": node_id("C", commit.sha),
        "url": f"{links.api}/git/commits/{commit.sha}",
        "html_url": f"{links.html}/commit/{commit.sha}",
        "author": person_shape(commit.author),
        "committer": person_shape(commit.committer),
        "tree": {"sha": commit.tree, "url": f"{links.api}/git/trees/{commit.tree}"},
        "message": commit.message,
        "parents": [
            {
                "sha": parent,
                "url": f"{links.api}/git/commits/{parent}",
                "html_url": f"{links.html}/commit/{parent}",
            }
            for parent in commit.parents
        ],
        "verification": UNVERIFIED,
    }


def commit_shape(links: Links, commit: CommitRecord, login: str) -> JsonObject:
    """Return a commit as the history shows it."""
    user = user_shape(links.base_url, login)
    return {
        "url": f"{links.api}/commits/{commit.sha}",
        "sha": commit.sha,
        "node_id": node_id("C", commit.sha),
        "html_url": f"{links.html}/commit/{commit.sha}",
        "comments_url": f"{links.api}/commits/{commit.sha}/comments",
        "commit": {
            "url": f"{links.api}/git/commits/{commit.sha}",
            "author": person_shape(commit.author),
            "committer": person_shape(commit.committer),
            "message": commit.message,
            "comment_count": 0,
            "tree": {"sha": commit.tree, "url": f"{links.api}/git/trees/{commit.tree}"},
            "verification": UNVERIFIED,
        },
        "author": user,
        "committer": user,
        "parents": [
            {
                "sha": parent,
                "url": f"{links.api}/commits/{parent}",
                "html_url": f"{links.html}/commit/{parent}",
            }
            for parent in commit.parents
        ],
    }


def user_shape(base_url: str, login: str) -> JsonObject:
    """Return a user as other answers mention it."""
    api = f"{base_url}/users/{login}"
    lists = ("followers", "gists", "starred", "subscriptions", "organizations", "repos", "events")
    return {
        "login": login,
        "id": 1,
        "node_id": "U_1",
        "avatar_url": f"{base_url}/avatars/{login}",
        "gravatar_id": "",
        "url": api,
        "html_url": f"{base_url}/{login}",
        **{f"{name}_url": f"{api}/{name}" for name in lists},
        "following_url": f"{api}/following{{/other_user}}",
        "received_events_url": f"{api}/received_events",
        "type": "User",
        "user_view_type": "public",
        "site_admin": False,
    }


def viewer_shape(base_url: str, login: str, created: str) -> JsonObject:
    """Return the token's owner."""
    unknown: dict[str, Any] = dict.fromkeys(
        ("company", "location", "hireable", "bio", "email", "twitter_username")
    )
    counts = (
        "public_repos public_gists followers following private_gists "
        "total_private_repos owned_private_repos disk_usage collaborators"
    )
    return {
        **user_shape(base_url, login),
        **unknown,
        **dict.fromkeys(counts.split(), 0),
        "name": login,
        "blog": "",
        "created_at": created,
        "updated_at": created,
        "two_factor_authentication": True,
    }


_REPOSITORY_LISTS = (
    "archive assignees blobs branches collaborators comments commits compare contents contributors "
    "deployments downloads events forks git_commits git_refs git_tags hooks issue_comment issue_events "
    "issues keys labels languages merges milestones notifications pulls releases stargazers statuses "
    "subscribers subscription tags teams trees"
)


def repository_shape(
    links: Links, *, number: int, default_branch: str, size_kb: int, created: str, updated: str
) -> JsonObject:
    """Return a repository with all its addresses."""
    owner, _, name = links.full_name.partition("/")
    addresses = {f"{part}_url": f"{links.api}/{part.replace('_', '/')}" for part in _REPOSITORY_LISTS.split()}
    counts = (
        "forks_count stargazers_count watchers_count open_issues_count subscribers_count network_count "
        "forks open_issues watchers"
    )
    off = "fork has_issues has_projects has_wiki has_pages has_discussions archived disabled is_template"
    return {
        "id": number,
        "node_id": f"R_{number}",
        "name": name,
        "full_name": links.full_name,
        "owner": user_shape(links.base_url, owner),
        "private": True,
        "visibility": "private",
        "html_url": links.html,
        "description": None,
        "url": links.api,
        **addresses,
        **dict.fromkeys(counts.split(), 0),
        **dict.fromkeys(off.split(), False),
        **dict.fromkeys(("mirror_url", "homepage", "language", "license")),
        "git_url": f"{links.html}.git",
        "ssh_url": f"{links.html}.git",
        "clone_url": f"{links.html}.git",
        "svn_url": links.html,
        "size": size_kb,
        "default_branch": default_branch,
        "pushed_at": updated,
        "created_at": created,
        "updated_at": updated,
        "permissions": {"admin": True, "maintain": True, "push": True, "triage": True, "pull": True},
        "allow_forking": True,
        "web_commit_signoff_required": False,
        "topics": [],
    }
