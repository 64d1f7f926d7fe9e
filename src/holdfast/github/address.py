"""Where a repository's API is: the server, its GraphQL, and the name that is put into every URL."""

import httpx

from holdfast.errors import InvalidSettings

Origin = tuple[str, str, int | None]


def parse_origin(base_url: str) -> Origin:
    """Return the origin of the API. Raises InvalidSettings for what is no address of a server."""
    try:
        origin = origin_of(httpx.URL(base_url))
    except httpx.InvalidURL as error:
        raise InvalidSettings([f"the API's address is not a URL: {error}"]) from error
    if origin[0] not in ("http", "https") or not origin[1]:
        raise InvalidSettings(["the API's address must begin with https:// (or http://) and name a server"])
    return origin


def origin_of(url: httpx.URL) -> Origin:
    """Return scheme, host and port: nobody else may get our token."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def graphql_url(base_url: str) -> str:
    """Return where GraphQL is: Enterprise Server keeps it beside `/api/v3`, GitHub below its root."""
    if base_url.endswith("/api/v3"):
        return f"{base_url.removesuffix('/v3')}/graphql"
    return f"{base_url}/graphql"


def check_repository_name(repository: str) -> str:
    """Return the name if it is owner/name. Raises InvalidSettings."""
    segments = repository.split("/")
    is_plain = all(
        segment.strip(".") and all(c.isascii() and (c.isalnum() or c in "-_.") for c in segment)
        for segment in segments
    )
    if len(segments) != 2 or not is_plain:
        raise InvalidSettings([f"the repository must be given as owner/name, not as {repository!r}"])
    return repository
