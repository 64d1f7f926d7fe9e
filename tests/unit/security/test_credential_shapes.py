"""Every rule finds its credential whole, and nothing in ordinary text."""

import base64
import re
from collections.abc import Iterator
from datetime import date
from random import Random
from uuid import UUID

import pytest

from holdfast.security.credential_shapes import RULES
from holdfast.security.search import RedactMode, Search, merge
from tests.fakes.credentials import IN_TEXT, MAKERS, Forger, make_all

KNOWN = Search("known", ())


def found_in(text: str) -> list[tuple[str, str]]:
    content = text.encode()
    return [(content[start:end].decode(), kind) for start, end, kind in merge(KNOWN.find(content))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "variant"), [(kind, each) for kind in MAKERS for each in range(len(MAKERS[kind]))]
)
def test_credential_is_found_whole_wherever_it_stands(kind: str, variant: int) -> None:
    secret = MAKERS[kind][variant](Forger())

    ends = "" if kind == "private-key" else " and more"
    for text in (secret, f"key={secret}{ends}", f'"{secret}"', f"\n{secret}\n"):
        ((found, _),) = found_in(text)
        assert secret.strip() in found
        assert KNOWN.is_suspect(text.encode())


@pytest.mark.parametrize("kind", IN_TEXT)
def test_credential_without_a_shape_is_found_by_what_stands_around_it(kind: str) -> None:
    around, make = IN_TEXT[kind]
    secret = make(Forger())

    assert found_in(around.format(secret)) == [(secret, kind)]


def test_every_rule_is_dated_and_tested_and_named_once() -> None:
    kinds = [rule.kind for rule in RULES]
    assert sorted(kinds) == sorted({*MAKERS, *IN_TEXT})
    assert len(kinds) >= 40
    assert all(date.fromisoformat(rule.since) for rule in RULES)


@pytest.mark.slow
def test_the_corpus_has_two_hundred_credentials_of_forty_kinds() -> None:
    corpus = make_all(seed=7, number=200)
    assert len(corpus) == 200
    assert len({kind for kind, _, _ in corpus}) >= 40
    for kind, text, secret in corpus:
        assert any(secret.strip() in found for found, _ in found_in(text)), kind


WORDS = re.findall(
    r"\w+",
    "the run of a checkpoint waits for its review and then token key secret password pattern of basic bearer "
    "authorization value https function return const export default object array string number null branch",
)


def ordinary(random: Random) -> Iterator[str]:
    """Yield a string of each ordinary sort."""
    yield str(UUID(int=random.getrandbits(128), version=4))
    yield f"{random.getrandbits(160):040x}"
    yield f"sha256:{random.getrandbits(256):064x}"
    yield base64.b64encode(random.randbytes(random.randint(20, 200))).decode()
    yield base64.urlsafe_b64encode(random.randbytes(random.randint(20, 200))).decode()
    yield " ".join(random.choices(WORDS, k=12)).capitalize() + "."
    names = random.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$", k=6)
    a, b, c, d, e, f = names
    yield (
        f'!function({a},{b}){{"use strict";var {c}={a}.{d}||{{}};{c}.{e}=function({f}){{'
        f'return {f}?{a}["{d}"]:void 0}};'
        f"{b}.exports={c}}}(this,module);//# sourceMappingURL={random.getrandbits(64):x}.js.map"
    )
    yield f"def {a}_{b}(token: str, *, max_tokens: int = {random.randint(1, 9999)}) -> dict[str, Any]:"
    yield f"https://api.example.com:8443/v1/{random.choice(WORDS)}/{random.getrandbits(48):x}?page=2&key={a}{b}{c}"
    yield f"ssh://git@github.com/{random.choice(WORDS)}/{random.choice(WORDS)}.git#{random.getrandbits(160):040x}"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["known", "strict"])
def test_at_most_one_in_a_thousand_ordinary_strings_is_taken_for_a_credential(mode: RedactMode) -> None:
    random, search = Random(3), Search(mode, ())
    texts = [text for _ in range(1000) for text in ordinary(random)]
    assert len(texts) == 10_000

    wrong = [text for text in texts if any(search.find(text.encode()))]

    assert len(wrong) <= 10, wrong[:3]


def test_no_rule_asks_for_what_takes_more_than_linear_time() -> None:
    assert not any(re.search(r"\(\?[=!<]|\\[1-9]", rule.pattern) for rule in RULES)
