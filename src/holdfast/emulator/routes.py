"""Which handler answers which method and path, and what that costs."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.emulator import apps, contents, gitdata, history, overview, refs
from holdfast.emulator.exchange import Answer
from holdfast.emulator.visit import Visit

Handler = Callable[[Visit], Answer]


@dataclass(frozen=True)
class Route:
    """One method and path; `is_content` routes count as content creation, `is_free` ones cost no budget."""

    method: str
    pattern: re.Pattern[str]
    handler: Handler
    is_content: bool = False
    is_free: bool = False


def _route(
    method: str, path: str, handler: Handler, *, is_content: bool = False, is_free: bool = False
) -> Route:
    path = path.replace("{repository}", r"/repos/(?P<owner>[^/]+)/(?P<name>[^/]+)")
    pattern = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", path)
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)
    return Route(method, re.compile(pattern, re.DOTALL), handler, is_content, is_free)


def _post_graphql(visit: Visit) -> Answer:
    # Imported here because it takes longer than everything else together, and few need it.
    from holdfast.emulator.graph import post_graphql

    return post_graphql(visit)


ROUTES = (
    _route("GET", r"{repository}/contents(?:/(?P<path>.*))?", contents.get_contents),
    _route("PUT", r"{repository}/contents/(?P<path>.*)", contents.put_contents, is_content=True),
    _route("DELETE", r"{repository}/contents/(?P<path>.*)", contents.delete_contents, is_content=True),
    _route("GET", "{repository}", overview.get_repository),
    _route("GET", "{repository}/branches", refs.list_branches),
    _route("GET", "{repository}/branches/{branch*}", refs.get_branch),
    _route("GET", "{repository}/rules/branches/{branch*}", refs.list_rules),
    _route("GET", "{repository}/commits", history.list_commits),
    _route("GET", "{repository}/commits/{ref*}", history.get_commit),
    _route("GET", r"{repository}/compare/(?P<base>.+)\.\.\.(?P<head>.+)", history.compare),
    _route("GET", "{repository}/activity", refs.list_activities),
    _route("GET", "{repository}/git/ref/{ref*}", refs.get_ref),
    _route("GET", r"{repository}/git/matching-refs/(?P<ref>.*)", refs.list_matching_refs),
    _route("POST", "{repository}/git/refs", refs.create_ref, is_content=True),
    _route("PATCH", "{repository}/git/refs/{ref*}", refs.update_ref, is_content=True),
    _route("DELETE", "{repository}/git/refs/{ref*}", refs.delete_ref, is_content=True),
    _route("POST", "{repository}/git/blobs", gitdata.create_blob, is_content=True),
    _route("GET", "{repository}/git/blobs/{sha}", gitdata.get_blob),
    _route("POST", "{repository}/git/trees", gitdata.create_tree, is_content=True),
    _route("GET", "{repository}/git/trees/{sha*}", gitdata.get_tree),
    _route("POST", "{repository}/git/commits", gitdata.create_commit, is_content=True),
    _route("GET", "{repository}/git/commits/{sha}", gitdata.get_commit),
    _route("GET", "/app", apps.get_app),
    _route("GET", "{repository}/installation", apps.get_installation),
    _route("POST", "/app/installations/{installation}/access_tokens", apps.create_token),
    _route("POST", "/graphql", _post_graphql),
    _route("GET", "/rate_limit", overview.get_rate_limit, is_free=True),
    _route("GET", "/user", overview.get_viewer),
    _route("GET", "/meta", overview.get_meta),
    _route("GET", "/", overview.get_root),
)


def find_route(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Return the route for a decoded path, with the parts of the path that it names."""
    wanted = "GET" if method == "HEAD" else method
    for route in ROUTES:
        if route.method == wanted and (found := route.pattern.fullmatch(path)):
            return route, {name: value or "" for name, value in found.groupdict().items()}
    return None
