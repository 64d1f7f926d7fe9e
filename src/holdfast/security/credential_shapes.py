"""The shapes of well-known credentials: our own rules, each with the day it was written down or last changed.

A rule knows a credential by what its issuer puts into it: a prefix, a marker, a length, or the name that it
is given under. None needs entropy. Where a pattern has a group, only the group is the secret. The
patterns are RE2's, over bytes; a text is searched with the name that it has in its object before it, as
`name":"text`, so that a secret without a shape of its own is known by its name.
"""

from typing import NamedTuple


class Rule(NamedTuple):
    """One kind of credential. `anchor` finds where one may be, if that is simpler than the whole pattern."""

    kind: str
    pattern: str
    since: str
    anchor: str = ""


# What may stand between a name and its value: quotes, escapes, an equals sign, a colon, spaces.
_IS = r"""["'\\]{0,4}\s{0,4}(?::|=|=>)\s{0,4}["'\\]{0,4}"""
_PEM = r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"

RULES = (
    Rule("age-key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}", "2026-11-17"),
    Rule("airtable-token", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b", "2026-11-17"),
    Rule("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}", "2026-11-17"),
    Rule("atlassian-token", r"\bATATT3[A-Za-z0-9_=-]{60,}", "2026-11-17"),
    Rule(
        "authorization",
        rf"(?i)\bauthorization{_IS}(?:basic|bearer|token)\s+([A-Za-z0-9_.~+/=-]{{8,}})",
        "2026-11-17",
    ),
    Rule("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", "2026-11-17"),
    Rule(
        "aws-secret-key",
        rf"(?i)\b(?:aws_?)?secret_?access_?key{_IS}([A-Za-z0-9/+]{{40}})\b",
        "2026-11-17",
    ),
    Rule("aws-session-token", rf"(?i)\baws_?session_?token{_IS}([A-Za-z0-9/+=]{{60,}})", "2026-11-17"),
    Rule("azure-client-secret", r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", "2026-11-17"),
    Rule("azure-sas", r"[?&]sig=([A-Za-z0-9%+/]{40,}(?:%3[Dd]|=))", "2026-11-17"),
    Rule("azure-storage-key", r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={1,2})", "2026-11-17"),
    Rule("cloudflare-key", r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b", "2026-11-17"),
    Rule("databricks-token", r"\bdapi[0-9a-f]{32}(?:-[0-9])?\b", "2026-11-17"),
    Rule("digitalocean-token", r"\bdo[opr]_v1_[0-9a-f]{64}\b", "2026-11-17"),
    Rule(
        "discord-token",
        r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}\b",
        "2026-11-17",
    ),
    Rule(
        "discord-webhook",
        r"\bdiscord(?:app)?\.com/api/webhooks/[0-9]{17,20}/([A-Za-z0-9_-]{60,})",
        "2026-11-17",
    ),
    Rule("docker-token", r"\bdckr_[op]at_[A-Za-z0-9_-]{20,}", "2026-11-17"),
    Rule("doppler-token", r"\bdp\.(?:audit|ct|pt|sa|scim|st)\.[A-Za-z0-9_.-]{40,}", "2026-11-17"),
    Rule("figma-token", r"\bfig[dou]_[A-Za-z0-9_-]{40,}", "2026-11-17"),
    # An app's token may carry a JWT, and has no fixed length.
    Rule(
        "github-token",
        r"\bgh[oprsu]_(?:[0-9]+_eyJ[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|[A-Za-z0-9]{30,})",
        "2026-11-17",
    ),
    Rule("github-fine-grained-token", r"\bgithub_pat_[A-Za-z0-9_]{22,}", "2026-11-17"),
    Rule(
        "gitlab-token",
        r"\b(?:gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[A-Za-z0-9_.-]{20,}|GR1348941[A-Za-z0-9_-]{20})",
        "2026-11-17",
    ),
    Rule("google-api-key", r"\bAIza[A-Za-z0-9_-]{35}", "2026-11-17"),
    Rule("google-client-secret", r"\bGOCSPX-[A-Za-z0-9_-]{28}", "2026-11-17"),
    Rule("google-token", r"\b(?:ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{40,})", "2026-11-17"),
    Rule(
        "grafana-token", r"\bglsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|\bglc_eyJ[A-Za-z0-9+/=]{32,}", "2026-11-17"
    ),
    Rule("groq-key", r"\bgsk_[A-Za-z0-9]{40,}", "2026-11-17"),
    Rule("hashicorp-token", r"\bhv[brs]\.[A-Za-z0-9_-]{24,}", "2026-11-17"),
    Rule("heroku-key", r"\bHRKU-AA[A-Za-z0-9_-]{40,}", "2026-11-17"),
    Rule("hugging-face-token", r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}", "2026-11-17"),
    Rule(
        "jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)?", "2026-11-17"
    ),  # also the API keys of n8n
    Rule("linear-key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}", "2026-11-17"),
    Rule("mailchimp-key", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b", "2026-11-17"),
    Rule("mailgun-key", r"\bkey-[0-9a-f]{32}\b", "2026-11-17"),
    Rule("new-relic-key", r"\bNRAK-[A-Z0-9]{27}\b", "2026-11-17"),
    Rule("notion-token", r"\b(?:ntn_[0-9]{11}[A-Za-z0-9]{35}|secret_[A-Za-z0-9]{43})\b", "2026-11-17"),
    Rule("npm-token", r"\bnpm_[A-Za-z0-9]{36}", "2026-11-17"),
    Rule(
        "openai-key",
        r"\bsk-(?:(?:admin|proj|svcacct)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{48}\b|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})",
        "2026-11-17",
    ),
    Rule("openrouter-key", r"\bsk-or-v1-[0-9a-f]{64}\b", "2026-11-17"),
    Rule("perplexity-key", r"\bpplx-[A-Za-z0-9]{40,}", "2026-11-17"),
    Rule("planetscale-token", r"\bpscale_(?:oauth|pw|tkn)_[A-Za-z0-9_.=-]{32,}", "2026-11-17"),
    Rule("postman-key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b", "2026-11-17"),
    Rule("private-key", rf"(?s){_PEM}.*?(?:{_PEM_END}|\z)", "2026-11-17", anchor=_PEM),
    Rule("pypi-token", r"\bpypi-[A-Za-z0-9_-]{50,}", "2026-11-17"),
    Rule("replicate-token", r"\br8_[A-Za-z0-9]{37}\b", "2026-11-17"),
    Rule("rubygems-key", r"\brubygems_[0-9a-f]{48}\b", "2026-11-17"),
    Rule("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", "2026-11-17"),
    Rule("sentry-token", r"\bsntry[su]_[A-Za-z0-9+/=_]{60,}", "2026-11-17"),
    Rule("shopify-token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "2026-11-17"),
    Rule("slack-token", r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,})", "2026-11-17"),
    Rule(
        "slack-webhook",
        r"\bhooks\.slack\.com/(?:services|triggers|workflows)/([A-Za-z0-9+/]{20,})",
        "2026-11-17",
    ),
    Rule("square-token", r"\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,}", "2026-11-17"),
    Rule("stripe-key", r"\b(?:[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,})", "2026-11-17"),
    Rule("supabase-key", r"\b(?:sbp_[0-9a-f]{40}\b|sb_secret_[A-Za-z0-9_-]{20,})", "2026-11-17"),
    Rule("telegram-token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b", "2026-11-17"),
    Rule("terraform-token", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}", "2026-11-17"),
    Rule("twilio-key", r"\bSK[0-9a-f]{32}\b", "2026-11-17"),
    Rule(
        "twilio-token", rf"(?i)\btwilio_?(?:account_?)?(?:auth_?)?token{_IS}([0-9a-f]{{32}})\b", "2026-11-17"
    ),
    Rule(
        "url-password",
        r"""\b[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/?#"'<>@:\\]{0,64}:[^\s/?#"'<>@\\]{1,128})@""",
        "2026-11-17",
    ),
    Rule("xai-key", r"\bxai-[A-Za-z0-9]{60,}", "2026-11-17"),
)
