"""Credentials are taken out of drafts; every other byte stays."""

import json
from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Draft, draft_from_mapping, draft_from_text
from holdfast.format.redacted import MARK, Redacted
from holdfast.security.redaction import EARLIER, Redactor
from holdfast.security.search import HELD, TELLING_NAME, RedactMode
from tests.fakes.credentials import MAKERS, Forger, make_all

ID = "0b5e3c3e-5a5e-4b8e-9d8a-0d2f6d1f8f10"
NOW = "2026-11-17T20:00:00Z"
TOKEN = MAKERS["github-token"][0](Forger())
LIVE = 'a live token with "quotes" / slashes'


def redact(document: Any, mode: RedactMode = "known", *secrets: str) -> Draft:
    make = draft_from_text if isinstance(document, bytes) else draft_from_mapping
    draft = make(document, now=NOW, new_id=lambda: ID, run_id="r")
    return Redactor(mode, lambda: secrets).redact(draft)


def short(state: Any, **members: Any) -> dict[str, Any]:
    return {"trigger": "manual", "phase": "p", "state": state, **members}


def state_of(draft: Draft) -> Any:
    return json.loads(bytes(draft.texts["state_snapshot"]))


def test_checkpoint_without_credentials_is_the_same_object() -> None:
    document = short({"a": "nothing here"}, checkpoint_id=ID)
    draft = draft_from_mapping(document, now=NOW, new_id=str, run_id="r")
    assert Redactor("known", lambda: ["token-in-force"]).redact(draft) is draft
    assert Redactor("off", list).redact(draft) is draft


def test_credential_is_replaced_and_its_place_listed() -> None:
    draft = redact(short({"steps": [{"log": f"cloned with {TOKEN}, done"}]}))

    assert state_of(draft) == {"steps": [{"log": f"cloned with {MARK}, done"}]}
    places = (Redacted("/state_snapshot/steps/0/log", "github-token"),)
    assert draft.redacted == places
    assert json.loads(draft.body(1))["redacted"] == [{"path": places[0].path, "kind": "github-token"}]


def test_all_other_bytes_stay_as_they_are() -> None:
    state = b'{"n": 1.10e+2, "u":"\\u00e9\\ud83d\\ude00 %b \\ud83d\\ude00\\/","e" : [ ] }'
    draft = redact(b'{"trigger":"manual","state": ' + state % TOKEN.encode() + b"}")

    assert bytes(draft.texts["state_snapshot"]) == state % MARK.encode()


@pytest.mark.parametrize(
    "hide", [lambda s: f"\\u{ord(s[0]):04x}{s[1:]}", lambda s: "".join(f"\\u{ord(c):04X}" for c in s)]
)
def test_credential_behind_escapes_is_found(hide: Any) -> None:
    draft = redact(b'{"trigger":"manual","state":{"a":"%b"}}' % hide(TOKEN).encode())
    assert state_of(draft) == {"a": MARK}


def test_slash_may_be_escaped() -> None:
    draft = redact(b'{"trigger":"manual","state":{"a":"postgres:\\/\\/me:hunter2000@db\\/app"}}')
    assert bytes(draft.texts["state_snapshot"]) == b'{"a":"postgres:\\/\\/%b@db\\/app"}' % MARK.encode()


def test_private_key_goes_as_a_whole_block() -> None:
    pem = Forger().pem()
    assert state_of(redact(short({"a": f"before {pem} after", "b": json.dumps({"k": pem})}))) == {
        "a": f"before {MARK} after",
        "b": json.dumps({"k": MARK}),
    }


def test_secret_is_known_by_the_name_it_has() -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzK"
    draft = redact(short({"env": {"AWS_SECRET_ACCESS_KEY": secret, "other": secret}}))
    assert state_of(draft) == {"env": {"AWS_SECRET_ACCESS_KEY": MARK, "other": secret}}


def test_names_of_members_are_redacted_and_stay_apart() -> None:
    other = MAKERS["npm-token"][0](Forger(2))
    draft = redact(short({TOKEN: {"x": TOKEN}, other: 1}))

    assert list(state_of(draft)) == [MARK, f"{MARK} 2"]
    assert [place.path for place in draft.redacted] == [
        f"/state_snapshot/{MARK}",
        f"/state_snapshot/{MARK}/x",
        f"/state_snapshot/{MARK} 2",
    ]


def test_context_header_and_other_members_are_redacted_too() -> None:
    draft = redact(
        short({}, context_fields={"a": TOKEN}, workflow=f"https://x:{TOKEN}@h/w.yml", mine=[TOKEN])
    )

    assert TOKEN.encode() not in draft.body(1)
    assert draft.header.workflow == f"https://{MARK}@h/w.yml"
    assert {place.path for place in draft.redacted} == {"/context_fields/a", "/workflow", "/mine/0"}


def test_run_that_is_called_like_a_credential_is_refused_without_saying_it() -> None:
    draft = draft_from_mapping(short({}), now=NOW, new_id=lambda: ID, run_id=TOKEN)
    with pytest.raises(InvalidCheckpoint, match="use another name") as refusal:
        Redactor("known", lambda: ()).redact(draft)
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize("mode", ["off", "known", "strict"])
def test_own_secrets_always_go_also_from_bytes(mode: RedactMode) -> None:
    for document in (short({"a": f"x{LIVE}y"}), json.dumps(short({"a": f"x{LIVE}y"})).encode()):
        draft = redact(document, mode, LIVE)
        assert state_of(draft) == {"a": f"x{MARK}y"}
        assert draft.redacted == (Redacted("/state_snapshot/a", HELD),)


def test_token_that_is_a_mere_word_is_none() -> None:
    assert state_of(redact(short(["test", "a test"]), "off", "test")) == ["test", "a test"]


def test_off_leaves_credentials_of_others() -> None:
    assert state_of(redact(short({"a": TOKEN}), "off", LIVE)) == {"a": TOKEN}


def test_strict_takes_values_under_telling_names() -> None:
    state = {"dbPassword": "hunter2", "pin_code": 1234, "login": {"secrets": {"a": ["b", 3, True, None, ""]}}}
    kept = {"max_tokens": 100, "password_hint": "cat", "ok": "yes"}
    draft = redact(short(state | kept), "strict")

    redacted = {
        "dbPassword": MARK,
        "pin_code": MARK,
        "login": {"secrets": {"a": [MARK, MARK, True, None, ""]}},
    }
    assert state_of(draft) == redacted | kept
    assert {place.kind for place in draft.redacted} == {TELLING_NAME}
    assert "dbPassword" in state_of(redact(short(state), "known"))
    assert state_of(redact(short(state), "known"))["dbPassword"] == "hunter2"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_strict_looks_into_texts_that_are_json(depth: int) -> None:
    def wrap(document: object) -> str:
        text = json.dumps(document)
        for _ in range(depth - 1):
            text = json.dumps([text])
        return text

    inner = {"user": "ada", "dbPassword": 'hun"ter\u00e9', "login": {"secrets": ["a", "b", ""]}, "ok": "é"}
    draft = redact(short({"body": wrap(inner), "n": 1}), "strict")

    redacted = inner | {"dbPassword": MARK, "login": {"secrets": [MARK, MARK, ""]}}
    assert state_of(draft) == {"body": wrap(redacted), "n": 1}
    assert {(place.path, place.kind) for place in draft.redacted} == {("/state_snapshot/body", TELLING_NAME)}
    assert state_of(redact(short({"body": wrap(inner)}), "known")) == {"body": wrap(inner)}


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("DB_PASSWORD=hunter2 make", f"DB_PASSWORD={MARK} make"),
        ("A=1\nexport API_KEY='a b'\nB=2", f"A=1\nexport API_KEY='{MARK}'\nB=2"),
        ("A=1\nDB_PASSWORD=hunter2\nB=2", f"A=1\nDB_PASSWORD={MARK}\nB=2"),
        ("A=1\tDB_PASSWORD=hunter2", f"A=1\tDB_PASSWORD={MARK}"),
        ("é\u2028DB_PASSWORD=hunter2", f"é\u2028DB_PASSWORD={MARK}"),
        ('SMTP_PASS="x y"', f'SMTP_PASS="{MARK}"'),
        ("DB_PASSWORD=p@ss&w0rd(1)$x make", f"DB_PASSWORD={MARK} make"),
        ("DB_PASSWORD=a;b|c<d>e` B=2", f"DB_PASSWORD={MARK}` B=2"),
        ('PASSWORD="pa$$ word" B="$B"', f'PASSWORD="{MARK}" B="$B"'),
        ("https://h/p?user=u&access_token=abc&n=1", f"https://h/p?user=u&access_token={MARK}&n=1"),
        ("https://h/?apiKey=abc#end", f"https://h/?apiKey={MARK}#end"),
        ("https://h/?ACCESS_TOKEN=abc&n=1#end", f"https://h/?ACCESS_TOKEN={MARK}&n=1#end"),
        ("https://h/?n=1&API_KEY=abc&m=1", f"https://h/?n=1&API_KEY={MARK}&m=1"),
        ('got {"password": "a\\"b", "n": 1}, ok', f'got {{"password": "{MARK}", "n": 1}}, ok'),
        ("got {'db_password' : 'a b', 'n': 1}", f"got {{'db_password' : '{MARK}', 'n': 1}}"),
    ],
)
def test_strict_takes_what_a_text_assigns_to_telling_names(text: str, redacted: str) -> None:
    assert state_of(redact(short({"log": [text]}), "strict")) == {"log": [redacted]}
    assert state_of(redact(short({"log": [text]}), "known")) == {"log": [text]}


@pytest.mark.parametrize("depth", [1, 2])
def test_strict_takes_what_follows_a_mark_under_a_telling_name(depth: int) -> None:
    def wrap(value: str) -> str:
        text = json.dumps({"password": value})
        return text if depth == 1 else json.dumps([text])

    draft = redact(short([wrap(f"{MARK} tail"), f'PASSWORD="{MARK} tail"']), "strict")
    assert state_of(draft) == [wrap(MARK), f'PASSWORD="{MARK}"']


@pytest.mark.parametrize("text", ['["x",\n":y"]', '["x\\\\",\t": z"]', '{"a": ", :",\n"b": ":"}'])
def test_strict_tells_names_from_texts_that_begin_with_a_colon(text: str) -> None:
    state = f'{{"password": "hunter2", "list": {text}, "body": {json.dumps(text)}}}'
    draft = redact(f'{{"trigger": "manual", "phase": "p", "state": {state}}}'.encode(), "strict")
    assert bytes(draft.texts["state_snapshot"]).decode() == state.replace("hunter2", MARK)


def test_strict_finds_nothing_anew_in_what_it_has_taken_out() -> None:
    texts = ["DB_PASSWORD=a B='x'", "https://h/?token=a&n=1", json.dumps({"password": "a"})]
    texts += ["DB_PASSWORD=a&b(1)$x", 'A_TOKEN=a;B_TOKEN="b $c"', f"DB_PASSWORD={MARK}&b"]
    texts += [json.dumps({"password": f"{MARK} tail"}), f'PASSWORD="{MARK} $tail"']
    once = redact(short(texts), "strict")
    again = redact(short(state_of(once), redacted=json.loads(bytes(once.texts["redacted"]))), "strict")
    assert state_of(again) == state_of(once)
    assert again.redacted == once.redacted


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/work OLDPWD=/",
        "API_KEY=$API_KEY run",
        'API_KEY="$API_KEY" TOKEN=$(cat token)',
        f"API_KEY={MARK} run",
        'TOKEN="${{ secrets.TOKEN }}"',
        "MAX_TOKENS=4096",
        """{'max_tokens': 'many', 'PWD': '/work'} and {"PWD": "/work"}""",
        "token = next(tokens)",
        "the password: it is with Ada",
        '{"password": "cut',
        '{"max_tokens": "many", "PWD": "/work"}',
        "https://h/?page_token_count=3",
    ],
)
def test_strict_leaves_what_only_speaks_of_secrets(text: str) -> None:
    assert state_of(redact(short({"log": text}), "strict")) == {"log": text}


def test_marks_that_were_carried_on_are_listed_again_with_their_kind() -> None:
    first = redact(short({"a": TOKEN}))
    again = redact(first.body(1).replace(b'"sequence_number":1', b'"sequence_number":2'))
    assert again.redacted == first.redacted

    recorded = redact(short({"now": {"at": MARK}}))
    assert recorded.redacted == (Redacted("/state_snapshot/now/at", EARLIER),)
    assert redact(short({"a": MARK}), "off").redacted == (Redacted("/state_snapshot/a", EARLIER),)


def test_list_of_what_is_no_longer_there_goes() -> None:
    draft = redact(short({"a": "given anew"}, redacted=[{"path": "/state_snapshot/a", "kind": "jwt"}]))
    assert draft.redacted == ()
    assert "redacted" not in draft.texts


def test_member_called_redacted_must_be_such_a_list() -> None:
    with pytest.raises(InvalidCheckpoint, match="redacted: this name is kept"):
        redact(short({}, redacted="yes"))


def test_repetition_is_known_whatever_the_credential_was() -> None:
    identity = {"checkpoint_id": ID}
    first, second = (redact(short({"a": MAKERS["jwt"][0](Forger(seed))}, **identity)) for seed in (1, 2))
    plain = redact(short({"a": MARK}, **identity))
    assert first.fingerprint == second.fingerprint == plain.fingerprint
    other = redact(short({"a": "x"}, **identity))
    assert other.fingerprint not in (None, first.fingerprint)


@pytest.mark.slow
def test_corpus_at_odd_places_leaves_nothing() -> None:
    corpus = make_all(seed=11, number=200)
    texts = [text for _, text, _ in corpus]
    state = {
        "list": [[[{"deep": text}]] for text in texts[::4]],
        "nested": {f"{number}:{text}": number for number, text in enumerate(texts[1::4])},
        "text": "".join(f"\t\u00e9\U0001f600 {text}\n" for text in texts[2::4]),
        "inner": [json.dumps({"inner": json.dumps({"k": text})}) for text in texts[3::4]],
    }
    for ensure_ascii in (False, True):
        document = json.dumps(short(state), ensure_ascii=ensure_ascii).encode()
        body = redact(document).body(1)
        stored = json.dumps(json.loads(body), ensure_ascii=False)
        left = [kind for kind, _, secret in corpus if secret.strip() in stored or secret[8:-8] in stored]
        assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("before", ["\n", "\r\n", "\t", "\x01", "\b", "\f", "é", "😀", '"', "\\"], ids=ascii)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_credential_right_after_an_escape_is_found(before: str, *, ensure_ascii: bool) -> None:
    for kind, text, secret in make_all(seed=3, number=64):
        if kind == "url-password" or "\\" in text:
            continue
        document = json.dumps(short({"log": f"line{before}{text}\nend"}), ensure_ascii=ensure_ascii).encode()

        stored = json.dumps(json.loads(redact(document).body(1)), ensure_ascii=False)

        assert secret[8:-8] not in stored, kind


def test_names_of_top_level_members_are_searched() -> None:
    draft = redact(
        {**short({}), TOKEN: 1, "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzK"}
    )

    body = json.loads(draft.body(1))
    assert body[MARK] == 1
    assert body["AWS_SECRET_ACCESS_KEY"] == MARK
    assert TOKEN not in draft.body(1).decode()
    assert {(place.path, place.kind) for place in draft.redacted} == {
        (f"/{MARK}", "github-token"),
        ("/AWS_SECRET_ACCESS_KEY", "aws-secret-key"),
    }


def test_strict_takes_values_under_telling_names_of_the_top_level() -> None:
    draft = redact({**short({}), "password": "hunter2", "login": {"apiKey": [7]}}, "strict")
    body = json.loads(draft.body(1))
    assert (body["password"], body["login"]) == (MARK, {"apiKey": [MARK]})


def test_name_that_is_redacted_is_not_one_that_is_there_already() -> None:
    document = b'{"trigger":"manual","state":{"%b":1,"%b":2},"%b":3}' % (
        MARK.encode(),
        TOKEN.encode(),
        TOKEN.encode(),
    )
    draft = redact(document)
    assert state_of(draft) == {MARK: 1, f"{MARK} 2": 2}
    assert json.loads(draft.body(1))[f"{MARK} 3"] == 3


def test_what_stays_readable_beside_a_sealed_state_is_always_searched() -> None:
    mapping = {**short({"a": TOKEN}, workflow=TOKEN, retention=TOKEN), TOKEN: TOKEN, "phase": f"p {TOKEN}"}
    draft = draft_from_mapping(mapping, now=NOW, new_id=lambda: ID, run_id="r")

    redacted = Redactor("off", list, "known").redact(draft)

    assert state_of(redacted) == {"a": TOKEN}
    assert redacted.texts[MARK] == f'"{TOKEN}"'.encode()
    assert redacted.texts["retention"] == f'"{MARK}"'.encode()
    assert (redacted.header.workflow, redacted.header.phase) == (MARK, f"p {MARK}")
    with pytest.raises(InvalidCheckpoint, match="use another name"):
        Redactor("off", list, "known").redact(
            draft_from_mapping(short({}), now=NOW, new_id=lambda: ID, run_id=TOKEN)
        )


def test_kind_that_a_caller_states_is_none_of_its_own() -> None:
    stated = [{"path": "/state_snapshot/a", "kind": TOKEN}]
    draft = redact(short({"a": MARK}, redacted=stated), "off")
    assert draft.redacted == (Redacted("/state_snapshot/a", EARLIER),)


@pytest.mark.slow
@pytest.mark.parametrize("between", ["", " "])
def test_credentials_right_behind_each_other_all_go(between: str) -> None:
    corpus = [each for each in make_all(seed=5, number=60) if each[1] == each[2] and "\n" not in each[1]]
    for step in (1, 7):
        pairs = zip(corpus, corpus[step:] + corpus[:step], strict=True)
        texts = [first + between + second + between + first for (_, first, _), (_, second, _) in pairs]
        stored = json.dumps(state_of(redact(short(texts))))
        assert [text for _, _, text in corpus if text[8:-8] in stored] == []


def test_value_below_its_name_on_the_next_line_is_found() -> None:
    text = "Authorization:\n\tBearer abcdefgh12345678"
    assert state_of(redact(json.dumps(short({"a": text})).encode())) == {
        "a": f"Authorization:\n\tBearer {MARK}"
    }


@pytest.mark.parametrize("secret", ["p\u00e4ssw\u00f6rter-\u00df", "two\nlines of it", "tab\tand\x0bmore"])
def test_own_secret_is_found_in_every_spelling(secret: str) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    for text in (spelled, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        document = f'{{"trigger":"manual","state":{{"a":"{text}"}}}}'.encode()
        assert state_of(redact(document, "off", secret)) == {"a": MARK}


def test_name_that_is_stored_as_it_is_must_hold_no_credential() -> None:
    redactor = Redactor("known", lambda: [LIVE])
    redactor.check_name("owner", "machine-7:4711")
    for name in (TOKEN, f"by {LIVE}", "https://me:hunter2000@host"):
        with pytest.raises(InvalidCheckpoint, match="owner: it is, or holds, a credential") as refusal:
            redactor.check_name("owner", name)
        assert name not in str(refusal.value)
