"""Credentials of every kind that we know, made up on the spot: none is written down anywhere."""

import base64
import string
from collections.abc import Callable
from random import Random

import orjson

LETTERS = string.ascii_letters + string.digits
BASE64 = LETTERS + "+/"
URL_SAFE = LETTERS + "_-"
HEX = string.hexdigits[:16]
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"


class Forger:
    """Makes credentials up."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)

    def text(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choices(alphabet, k=length))

    def jwt(self) -> str:
        pieces = [{"alg": "HS256", "typ": "JWT"}, {"sub": self.text(LETTERS, 12), "iss": "n8n"}]
        encoded = [base64.urlsafe_b64encode(orjson.dumps(each)).decode().rstrip("=") for each in pieces]
        return ".".join([*encoded, self.text(URL_SAFE, 43)])

    def pem(self, label: str = "RSA ") -> str:
        lines = "\n".join(self.text(BASE64, 64) for _ in range(8))
        return f"-----BEGIN {label}PRIVATE KEY-----\n{lines}\n-----END {label}PRIVATE KEY-----"


Make = Callable[[Forger], str]


def _plain(prefix: str, alphabet: str, length: int, suffix: str = "") -> Make:
    return lambda forger: prefix + forger.text(alphabet, length) + suffix


MAKERS: dict[str, tuple[Make, ...]] = {
    "age-key": (_plain("AGE-SECRET-KEY-1", UPPER, 58),),
    "airtable-token": (lambda f: f"pat{f.text(LETTERS, 14)}.{f.text(HEX, 64)}",),
    "anthropic-key": (_plain("sk-ant-api03-", URL_SAFE, 93, "AA"),),
    "atlassian-token": (_plain("ATATT3xFfGF0", URL_SAFE, 176, "=1234ABCD"),),
    "aws-access-key": (_plain("AKIA", BASE32, 16), _plain("ASIA", BASE32, 16)),
    "azure-client-secret": (lambda f: f"{f.text(LETTERS, 3)}8Q~{f.text(LETTERS, 34)}",),
    "cloudflare-key": (lambda f: f"v1.0-{f.text(HEX, 24)}-{f.text(HEX, 146)}",),
    "databricks-token": (_plain("dapi", HEX, 32),),
    "digitalocean-token": (_plain("dop_v1_", HEX, 64), _plain("doo_v1_", HEX, 64)),
    "discord-token": (lambda f: f"M{f.text(LETTERS, 23)}.{f.text(LETTERS, 6)}.{f.text(LETTERS, 27)}",),
    "docker-token": (_plain("dckr_pat_", LETTERS, 27),),
    "doppler-token": (_plain("dp.pt.", LETTERS, 43),),
    "figma-token": (_plain("figd_", URL_SAFE, 40),),
    "github-token": (
        _plain("ghp_", LETTERS, 36),
        _plain("gho_", LETTERS, 36),
        _plain("ghs_", LETTERS, 36),
        lambda f: f"ghs_{f.text(string.digits, 8)}_{f.jwt()}",
    ),
    "github-fine-grained-token": (lambda f: f"github_pat_{f.text(LETTERS, 22)}_{f.text(LETTERS, 59)}",),
    "gitlab-token": (_plain("glpat-", LETTERS, 20), _plain("GR1348941", LETTERS, 20)),
    "google-api-key": (_plain("AIza", URL_SAFE, 35),),
    "google-client-secret": (_plain("GOCSPX-", URL_SAFE, 28),),
    "google-token": (_plain("ya29.", URL_SAFE, 120), _plain("1//0", LETTERS, 60)),
    "grafana-token": (lambda f: f"glsa_{f.text(LETTERS, 32)}_{f.text(HEX, 8)}",),
    "groq-key": (_plain("gsk_", LETTERS, 52),),
    "hashicorp-token": (_plain("hvs.", LETTERS, 90),),
    "heroku-key": (_plain("HRKU-AA", LETTERS, 58),),
    "hugging-face-token": (_plain("hf_", LETTERS, 34),),
    "jwt": (Forger.jwt,),
    "linear-key": (_plain("lin_api_", LETTERS, 40),),
    "mailchimp-key": (_plain("", HEX, 32, "-us14"),),
    "mailgun-key": (_plain("key-", HEX, 32),),
    "new-relic-key": (_plain("NRAK-", UPPER, 27),),
    "notion-token": (lambda f: f"ntn_{f.text(string.digits, 11)}{f.text(LETTERS, 35)}",),
    "npm-token": (_plain("npm_", LETTERS, 36),),
    "openai-key": (
        _plain("sk-proj-", URL_SAFE, 120),
        _plain("sk-", LETTERS, 48),
        lambda f: f"sk-{f.text(LETTERS, 20)}T3BlbkFJ{f.text(LETTERS, 20)}",
    ),
    "openrouter-key": (_plain("sk-or-v1-", HEX, 64),),
    "perplexity-key": (_plain("pplx-", LETTERS, 48),),
    "planetscale-token": (_plain("pscale_tkn_", LETTERS, 43),),
    "postman-key": (lambda f: f"PMAK-{f.text(HEX, 24)}-{f.text(HEX, 34)}",),
    "private-key": (Forger.pem, lambda f: f.pem("OPENSSH "), lambda f: f.pem("").partition("-----END")[0]),
    "pypi-token": (_plain("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 150),),
    "replicate-token": (_plain("r8_", LETTERS, 37),),
    "rubygems-key": (_plain("rubygems_", HEX, 48),),
    "sendgrid-key": (lambda f: f"SG.{f.text(LETTERS, 22)}.{f.text(LETTERS, 43)}",),
    "sentry-token": (_plain("sntryu_", HEX, 64),),
    "shopify-token": (_plain("shpat_", HEX, 32),),
    "slack-token": (lambda f: f"xoxb-{f.text(string.digits, 12)}-{f.text(LETTERS, 24)}",),
    "square-token": (_plain("sq0atp-", URL_SAFE, 22),),
    "stripe-key": (_plain("sk_live_", LETTERS, 24), _plain("whsec_", LETTERS, 32)),
    "supabase-key": (_plain("sbp_", HEX, 40),),
    "telegram-token": (lambda f: f"{f.text('123456789', 10)}:AA{f.text(LETTERS, 33)}",),
    "terraform-token": (lambda f: f"{f.text(LETTERS, 14)}.atlasv1.{f.text(LETTERS, 67)}",),
    "twilio-key": (_plain("SK", HEX, 32),),
    "xai-key": (_plain("xai-", LETTERS, 80),),
}
"""How to make each kind that is a credential wherever it stands."""

IN_TEXT: dict[str, tuple[str, Make]] = {
    "authorization": ("curl -H 'Authorization: Bearer {}'", _plain("", LETTERS, 40)),
    "aws-secret-key": ("export AWS_SECRET_ACCESS_KEY={}", _plain("", BASE64, 39, "x")),
    "aws-session-token": ("aws_session_token = {}", _plain("", BASE64, 300)),
    "azure-sas": ("https://a.blob.core.windows.net/c?sv=2024-01-01&sig={}", _plain("", LETTERS, 43, "%3D")),
    "azure-storage-key": ("DefaultEndpointsProtocol=https;AccountKey={}", _plain("", BASE64, 86, "==")),
    "discord-webhook": (
        "https://discord.com/api/webhooks/123456789012345678/{}",
        _plain("", URL_SAFE, 67, "x"),
    ),
    "slack-webhook": ("https://hooks.slack.com/services/{}", _plain("T0000000/B0000000/", LETTERS, 24)),
    "twilio-token": ("twilio_auth_token: {}", _plain("", HEX, 32)),
    "url-password": ("postgres://{}@db.example.com:5432/app", lambda f: f"app:{f.text(LETTERS, 20)}"),
}
"""How to make each kind that is known by what stands around it: `{}` is where it stands."""


def make_all(seed: int, number: int) -> list[tuple[str, str, str]]:
    """Return so many credentials of all kinds in turn: the kind, the text around it, the secret itself."""
    forger = Forger(seed)
    makers: list[tuple[str, str, Make]] = [
        (kind, "{}", make) for kind, variants in MAKERS.items() for make in variants
    ]
    makers += [(kind, around, make) for kind, (around, make) in IN_TEXT.items()]
    chosen = [makers[place % len(makers)] for place in range(number)]
    return [(kind, around.format(secret := make(forger)), secret) for kind, around, make in chosen]
