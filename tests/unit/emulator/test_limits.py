import httpx
import pytest

from holdfast.emulator import Emulator
from holdfast.emulator.limits import SlidingWindow

START = 1_750_000_000


def put(client: httpx.Client, name: str) -> httpx.Response:
    return client.put(f"contents/{name}", json={"message": "m", "content": ""})


def commit(client: httpx.Client) -> httpx.Response:
    query = (
        'mutation { createCommitOnBranch(input: {branch: {}, message: {headline: "m"}, '
        'expectedHeadOid: "1"}) { clientMutationId } }'
    )
    return client.post("http://emulator/graphql", json={"query": query})


def test_every_answer_tells_the_budget(client: httpx.Client) -> None:
    client.get("branches")

    headers = client.get("contents/none").headers

    assert {name: value for name, value in headers.items() if name.startswith("x-ratelimit-")} == {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": "4998",
        "x-ratelimit-used": "2",
        "x-ratelimit-reset": str(START + 3600),
        "x-ratelimit-resource": "core",
    }
    assert headers["date"] == "Sun, 15 Jun 2025 15:06:40 GMT"
    assert headers["x-github-request-id"]


def test_graphql_draws_from_its_own_budget(client: httpx.Client) -> None:
    headers = client.post("http://emulator/graphql", json={"query": "{ viewer { login } }"}).headers

    assert (headers["x-ratelimit-resource"], headers["x-ratelimit-used"]) == ("graphql", "1")
    assert client.get("branches").headers["x-ratelimit-used"] == "1"


def test_asking_for_the_budget_is_free(client: httpx.Client) -> None:
    client.get("branches")

    answers = [client.get("http://emulator/rate_limit").json()["resources"]["core"] for _ in range(3)]

    assert [answer["used"] for answer in answers] == [1, 1, 1]
    assert "rate" not in answers[0]


@pytest.mark.parametrize("status", [403, 429])
def test_exhausted_budget_is_refused_until_its_reset(
    emulator: Emulator, client: httpx.Client, now: list[float], status: int
) -> None:
    emulator.change_options(primary_limit=2, primary_status=status)
    client.get("branches")
    now[0] += 1000
    client.get("branches")

    refused = client.get("branches")
    now[0] = START + 3599
    still = client.get("branches")
    now[0] = START + 3600
    accepted = client.get("branches")

    assert (refused.status_code, still.status_code, accepted.status_code) == (status, status, 200)
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert refused.headers["x-ratelimit-reset"] == str(START + 3600)
    assert refused.json()["message"].startswith("API rate limit exceeded for user ID 1.")
    assert accepted.headers["x-ratelimit-reset"] == str(START + 7200)
    assert emulator.limits.primary_refusals == 2


def test_exhausted_graphql_budget_is_an_error_with_status_200(
    emulator: Emulator, client: httpx.Client
) -> None:
    emulator.change_options(primary_limit=0)

    answer = client.post("http://emulator/graphql", json={"query": "{ viewer { login } }"})

    assert answer.status_code == 200
    assert answer.json()["errors"][0]["type"] == "RATE_LIMITED"
    assert answer.headers["x-ratelimit-remaining"] == "0"


def test_unchanged_answer_costs_nothing(client: httpx.Client) -> None:
    tag = client.get("branches").headers["etag"]

    unchanged = client.get("branches", headers={"if-none-match": tag})

    assert unchanged.status_code == 304
    assert unchanged.content == b""
    assert unchanged.headers["x-ratelimit-used"] == "1"


@pytest.mark.parametrize(
    "header", [{"accept": "application/vnd.github.object+json"}, {"authorization": "token x"}]
)
def test_tag_belongs_to_media_type_and_token(client: httpx.Client, header: dict[str, str]) -> None:
    tag = client.get("branches").headers["etag"]

    assert client.get("branches", headers={"if-none-match": tag, **header}).status_code == 200


def test_too_much_content_in_a_minute_is_refused_with_budget_left(
    emulator: Emulator, client: httpx.Client, now: list[float]
) -> None:
    emulator.change_options(content_per_minute=2)
    put(client, "a")
    now[0] += 20
    put(client, "b")

    refused = put(client, "c")
    now[0] += 40
    accepted = put(client, "c")

    assert refused.status_code == 403
    assert "temporarily blocked from content creation" in refused.json()["message"]
    assert refused.json()["documentation_url"].endswith("secondary-rate-limits")
    assert refused.headers["retry-after"] == "40"
    assert int(refused.headers["x-ratelimit-remaining"]) > 4000
    assert accepted.status_code == 201
    assert emulator.limits.secondary_refusals == 1


def test_too_much_content_in_an_hour_is_refused_without_a_hint_if_so_told(
    emulator: Emulator, client: httpx.Client, now: list[float]
) -> None:
    emulator.change_options(
        content_per_minute=80, content_per_hour=3, secondary_with_retry_after=False, secondary_status=429
    )
    for name in ("a", "b", "c"):
        put(client, name)
        now[0] += 600

    refused = put(client, "d")

    assert refused.status_code == 429
    assert "retry-after" not in refused.headers


def test_reads_do_not_count_as_content_and_commits_by_graphql_do(
    emulator: Emulator, client: httpx.Client
) -> None:
    emulator.change_options(content_per_minute=1)

    statuses = [client.get("branches").status_code, commit(client).status_code, commit(client).status_code]

    assert statuses == [200, 200, 403]
    assert client.get("branches").status_code == 200
    assert [entry.is_content for entry in emulator.journal.entries] == [False, True, True, False]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "contents/a"),
        ("POST", "git/blobs"),
        ("POST", "git/trees"),
        ("POST", "git/commits"),
        ("POST", "git/refs"),
        ("PATCH", "git/refs/heads/main"),
    ],
)
def test_every_rest_write_counts_as_content(
    emulator: Emulator, client: httpx.Client, method: str, path: str
) -> None:
    client.request(method, path, json={})

    assert emulator.journal.entries[-1].is_content


def test_points_are_five_for_a_write_and_one_for_a_read(emulator: Emulator, client: httpx.Client) -> None:
    emulator.change_options(points_per_minute=7)

    statuses = [put(client, "a").status_code, *(client.get("branches").status_code for _ in range(3))]

    assert statuses == [201, 200, 200, 403]


def test_graphql_points_are_counted_apart(emulator: Emulator, client: httpx.Client) -> None:
    emulator.change_options(graphql_points_per_minute=5)

    statuses = [commit(client).status_code, commit(client).status_code, client.get("branches").status_code]

    assert statuses == [200, 403, 200]


def test_window_frees_what_is_older_than_its_span() -> None:
    window = SlidingWindow(60)
    window.spend(0, 5)
    window.spend(30, 5)

    assert window.wait_s(30, 5, limit=15) == 0
    assert window.wait_s(30, 5, limit=10) == 30
    assert window.wait_s(30, 10, limit=10) == 60
    assert window.wait_s(60, 5, limit=10) == 0
    assert window.wait_s(60, 11, limit=10) == 60
