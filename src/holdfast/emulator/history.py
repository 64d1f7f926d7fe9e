"""Commits as the history shows them."""

from datetime import datetime
from itertools import islice
from urllib.parse import quote

from holdfast.emulator.exchange import Answer, JsonObject, Refusal, json_answer, not_found
from holdfast.emulator.objects import EMPTY_TREE, CommitRecord
from holdfast.emulator.paging import link_header, read_page
from holdfast.emulator.refs import refuse_if_empty
from holdfast.emulator.shapes import commit_shape
from holdfast.emulator.visit import Visit

COMPARE_LIMIT = 250
FILES_LIMIT = 300


def list_commits(visit: Visit) -> Answer:
    """Answer one page of the history of a branch or of one path, newest first."""
    refuse_if_empty(visit)
    query, git = visit.request.query, visit.git
    start = visit.find_commit(git, query.get("sha") or git.default_branch)
    if start is None:
        raise not_found()
    page, size = read_page(visit.request)
    walk = git.history(start, query.get("path", "").strip("/"))
    if until := query.get("until"):
        latest = _parse_time(until)
        walk = (commit for commit in walk if commit.committer.time <= latest)
    # One more than asked for tells whether there is a next page without walking to the end.
    found = list(islice(walk, (page - 1) * size, page * size + 1))
    shapes = [commit_shape(visit.links, commit, visit.options.login) for commit in found[:size]]
    headers = link_header(visit.request, page, has_next=len(found) > size)
    return json_answer(shapes, headers=headers)


def _parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Refusal(422, f"{text} is no time") from None


def get_commit(visit: Visit) -> Answer:
    """Answer the commit that a branch, tag or SHA names."""
    refuse_if_empty(visit)
    revision = visit.params["ref"]
    sha = visit.find_commit(visit.git, revision)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {revision}")
    commit = visit.git.read_commit(sha)
    return json_answer(
        {
            **commit_shape(visit.links, commit, visit.options.login),
            "stats": {"total": 0, "additions": 0, "deletions": 0},
            "files": _files(visit, commit),
        }
    )


def compare(visit: Visit) -> Answer:
    """Answer how two revisions are related."""
    refuse_if_empty(visit)
    git, links, login = visit.git, visit.links, visit.options.login
    base, head = (visit.find_commit(git, visit.params[side]) for side in ("base", "head"))
    meeting = git.merge_base(base, head) if base and head else None
    if base is None or head is None or meeting is None:
        raise not_found()
    ahead, behind = git.ahead_behind(head, base)
    commits = list(islice(git.history_beyond(head, base), COMPARE_LIMIT))
    url = f"{links.api}/compare/{visit.params['base']}...{visit.params['head']}"
    page = f"{links.html}/compare/{visit.params['base']}...{visit.params['head']}"
    return json_answer(
        {
            "url": url,
            "html_url": page,
            "permalink_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": commit_shape(links, git.read_commit(base), login),
            "merge_base_commit": commit_shape(links, git.read_commit(meeting), login),
            "status": _relation(ahead, behind),
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "commits": [commit_shape(links, commit, login) for commit in reversed(commits)],
            "files": [],
        }
    )


def _relation(ahead: int, behind: int) -> str:
    if ahead and behind:
        return "diverged"
    return "ahead" if ahead else "behind" if behind else "identical"


def _files(visit: Visit, commit: CommitRecord) -> list[JsonObject]:
    """Return the files that a commit changed; lines are not counted."""
    git, links = visit.git, visit.links
    parent = git.read_commit(commit.parents[0]).tree if commit.parents else EMPTY_TREE
    changed = islice(git.changed_files(parent, commit.tree), FILES_LIMIT)
    return [
        {
            "sha": entry.sha if (entry := now or was) else None,
            "filename": path,
            "status": "added" if was is None else "removed" if now is None else "modified",
            "additions": 0,
            "deletions": 0,
            "changes": 0,
            "blob_url": f"{links.html}/blob/{commit.sha}/{quote(path)}",
            "raw_url": f"{links.html}/raw/{commit.sha}/{quote(path)}",
            "contents_url": f"{links.api}/contents/{quote(path)}?ref={commit.sha}",
        }
        for path, was, now in changed
    ]
