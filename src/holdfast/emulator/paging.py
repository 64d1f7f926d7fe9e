"""Lists in pages, with the Link header that leads from one to the next."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from holdfast.emulator.exchange import Answer, Request, json_answer

PER_PAGE = 30
PER_PAGE_LIMIT = 100


def read_page(request: Request) -> tuple[int, int]:
    """Return the number and the size of the page that was asked for."""
    return max(1, _number(request, "page", 1)), min(
        max(1, _number(request, "per_page", PER_PAGE)), PER_PAGE_LIMIT
    )


def page_answer(request: Request, items: Sequence[Any]) -> Answer:
    """Answer one page of a complete list."""
    page, size = read_page(request)
    start = (page - 1) * size
    last = max(1, -(-len(items) // size))
    headers = link_header(request, page, has_next=page < last, last=last)
    return json_answer(items[start : start + size], headers=headers)


def link_header(request: Request, page: int, *, has_next: bool, last: int | None = None) -> dict[str, str]:
    """Return the Link header for a page; none if everything is on one. The last page may be unknown."""
    targets = []
    if page > 1:
        targets += [("prev", page - 1), ("first", 1)]
    if has_next:
        targets += [("next", page + 1)]
        targets += [("last", last)] if last is not None else []
    links = [f'<{_address(request, number)}>; rel="{name}"' for name, number in targets]
    return {"link": ", ".join(links)} if links else {}


def _address(request: Request, page: int) -> str:
    query = urlencode({**request.query, "page": str(page)})
    return f"{request.base_url}{request.path}?{query}"


def _number(request: Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default
