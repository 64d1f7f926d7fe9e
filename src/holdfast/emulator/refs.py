"""Branches and refs."""

from holdfast.emulator.exchange import (
    Answer,
    JsonObject,
    Refusal,
    json_answer,
    not_found,
    unsupplied,
    wrong_type,
)
from holdfast.emulator.objects import BlockedPath
from holdfast.emulator.paging import page_answer
from holdfast.emulator.repository import ForcedMove, RefMoved
from holdfast.emulator.shapes import commit_shape, format_time
from holdfast.emulator.visit import Visit

EMPTY_MESSAGE = "Git Repository is empty."


def refuse_if_empty(visit: Visit) -> None:
    """Refuse what GitHub does not do in a repository without commits."""
    if visit.git.is_empty():
        raise Refusal(409, EMPTY_MESSAGE)


def list_branches(visit: Visit) -> Answer:
    """Answer the branches with their heads."""
    found = [(name, visit.read_branch(visit.git, name)) for name, _ in visit.git.list_refs("refs/heads/")]
    shapes = [
        {
            "name": name.removeprefix("refs/heads/"),
            "commit": {"sha": sha, "url": f"{visit.links.api}/commits/{sha}"},
            "protected": _is_protected(visit, name.removeprefix("refs/heads/")),
        }
        for name, sha in found
        if sha is not None
    ]
    return page_answer(visit.request, shapes)


def get_branch(visit: Visit) -> Answer:
    """Answer one branch with its head commit."""
    name = visit.params["branch"]
    sha = visit.read_branch(visit.git, f"refs/heads/{name}")
    if sha is None:
        raise not_found("Branch not found")
    url = f"{visit.links.api}/branches/{name}"
    return json_answer(
        {
            "name": name,
            "commit": commit_shape(visit.links, visit.git.read_commit(sha), visit.options.login),
            "_links": {"self": url, "html": f"{visit.links.html}/tree/{name}"},
            "protected": _is_protected(visit, name),
            "protection": {"enabled": _is_protected(visit, name)},
            "protection_url": f"{url}/protection",
        }
    )


def list_rules(visit: Visit) -> Answer:
    """Answer the rules that hold for a branch, whether there is such a branch or not."""
    source = f"{visit.params['owner']}/{visit.params['name']}"
    rule = {"type": "pull_request", "ruleset_source_type": "Repository", "ruleset_source": source}
    is_ruled = visit.params["branch"] in visit.switches.ruled_branches
    return json_answer([{**rule, "ruleset_id": 1, "parameters": {}}] if is_ruled else [])


def get_ref(visit: Visit) -> Answer:
    """Answer one ref."""
    refuse_if_empty(visit)
    ref = f"refs/{visit.params['ref']}"
    sha = visit.read_branch(visit.git, ref)
    if sha is None:
        raise not_found()
    return json_answer(_ref_shape(visit, ref, sha))


def list_matching_refs(visit: Visit) -> Answer:
    """Answer every ref whose name begins as asked; none is an empty list."""
    refuse_if_empty(visit)
    found = visit.git.list_refs(f"refs/{visit.params['ref']}")
    seen = ((name, visit.read_branch(visit.git, name)) for name, _ in found)
    return page_answer(visit.request, [_ref_shape(visit, name, sha) for name, sha in seen if sha])


def create_ref(visit: Visit) -> Answer:
    """Make a new ref."""
    visit.refuse_if_read_only()
    refuse_if_empty(visit)
    body = visit.request.json_object()
    ref, sha = required_text(body, "ref"), required_text(body, "sha")
    if not visit.git.is_valid_ref(ref) or ref.count("/") < 2:
        raise Refusal(422, f"{ref} is not a valid ref name.")
    kind = visit.git.describe(sha)
    if kind is None:
        raise Refusal(422, "Object does not exist")
    if ref.startswith("refs/heads/") and kind[0] != "commit":
        raise Refusal(422, "Reference update failed")
    visit.refuse_by_rules(ref.removeprefix("refs/heads/"), "create ref", {})
    try:
        visit.git.move_ref(ref, sha, None)
    except RefMoved:
        raise Refusal(422, "Reference already exists") from None
    except BlockedPath:
        raise Refusal(422, "Reference update failed") from None
    return json_answer(_ref_shape(visit, ref, sha), 201)


def update_ref(visit: Visit) -> Answer:
    """Move a ref; without `force` only forward."""
    visit.refuse_if_read_only()
    refuse_if_empty(visit)
    body = visit.request.json_object()
    sha, force = required_text(body, "sha"), body.get("force", False)
    if not isinstance(force, bool):
        raise wrong_type("force", force, "a boolean")
    git, ref = visit.git, f"refs/{visit.params['ref']}"
    visit.move_head_of(git, ref)
    with git.locked():
        head = git.read_ref(ref)
        if head is None:
            raise Refusal(422, "Reference does not exist")
        if (git.describe(sha) or ("", 0))[0] != "commit":
            raise Refusal(422, "Object does not exist")
        visit.refuse_by_rules(ref.removeprefix("refs/heads/"), "update ref", {})
        if not force and not git.is_ancestor(head, sha):
            raise Refusal(422, "Update is not a fast forward")
        git.move_ref(ref, sha, head)
        if not git.is_ancestor(head, sha):
            git.forced_moves.insert(0, ForcedMove(ref, head, sha, visit.now))
    return json_answer(_ref_shape(visit, ref, sha))


def list_activities(visit: Visit) -> Answer:
    """Answer how branches were moved by force, the newest first; GitHub lists the other moves as well."""
    query = visit.request.query
    shapes = [
        {
            "id": number,
            "before": move.before,
            "after": move.after,
            "ref": move.ref,
            "timestamp": format_time(move.at),
            "activity_type": "force_push",
            "actor": None,
        }
        for number, move in enumerate(visit.git.forced_moves, 1)
        if query.get("ref", move.ref) in (move.ref, move.ref.removeprefix("refs/heads/"))
        and query.get("activity_type", "force_push") == "force_push"
    ]
    return page_answer(visit.request, shapes)


def delete_ref(visit: Visit) -> Answer:
    """Remove a ref."""
    visit.refuse_if_read_only()
    refuse_if_empty(visit)
    ref = f"refs/{visit.params['ref']}"
    with visit.git.locked():
        head = visit.git.read_ref(ref)
        if head is None:
            raise Refusal(422, "Reference does not exist")
        visit.refuse_by_rules(ref.removeprefix("refs/heads/"), "delete ref", {})
        visit.git.delete_ref(ref, head)
    return Answer(204)


def required_text(body: JsonObject, name: str) -> str:
    """Return a text field of a request's body, or refuse."""
    if name not in body:
        raise unsupplied(name)
    value = body[name]
    if not isinstance(value, str):
        raise wrong_type(name, value, "a string")
    return value


def _is_protected(visit: Visit, branch: str) -> bool:
    return branch in visit.switches.protected_branches | visit.switches.ruled_branches


def _ref_shape(visit: Visit, ref: str, sha: str) -> JsonObject:
    kind = (visit.git.describe(sha) or ("commit", 0))[0]
    return {
        "ref": ref,
        "node_id": visit.repository.ref_id(ref),
        "url": f"{visit.links.api}/git/{ref}",
        "object": {"sha": sha, "type": kind, "url": f"{visit.links.api}/git/{kind}s/{sha}"},
    }
