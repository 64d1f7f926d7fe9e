"""Where a repository's API is: the server, its GraphQL, and the name that is put into every URL."""

from urllib.parse import SplitResult, urlsplit

from holdfast.errors import InvalidSettings

Origin = tuple[str, str, int | None]

_PORTS = {"http": 80, "https": 443}


def parse_origin(base_url: str) -> Origin:
    """Return the origin of the API. Raises InvalidSettings for what is no address of a server."""
    try:
        origin = origin_of(urlsplit(base_url))
    except ValueError as error:
        raise InvalidSettings([f"the API's address is not a URL: {error}"]) from error
    if origin[0] not in _PORTS or not origin[1]:
        raise InvalidSettings(["the API's address must begin with https:// (or http://) and name a server"])
    return origin


def origin_of(url: SplitResult) -> Origin:
    """Return scheme, host and port: nobody else may get our token. Raises ValueError for an odd port."""
    return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme)


def server_of(base_url: str) -> str:
    """Return the part of an address before its path.

    >>> server_of("https://ghe.test:8443/api/v3")
    'https://ghe.test:8443'
    """
    split = urlsplit(base_url)
    return f"{split.scheme}://{split.netloc}"


def graphql_path(base_path: str) -> str:
    """Return where GraphQL is: Enterprise Server keeps it beside `/api/v3`, GitHub below its root."""
    return f"{base_path.removesuffix('/v3') if base_path.endswith('/api/v3') else base_path}/graphql"


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
