"""What a secret looks like: names that tell of one, and well-known forms of tokens. ``core.redact`` looks for them."""

from __future__ import annotations

from dataclasses import dataclass

# Words at the end of a name; those that are short must stand alone, so that "spin" and "author" tell nothing.
_LONG_NAMES = (
    r"password|passwd|passphrase|passcode|secret|token"
    r"|api[_\- ]?key|access[_\- ]?key|secret[_\- ]?key|private[_\- ]?key"
    r"|signing[_\- ]?key|encryption[_\- ]?key|account[_\- ]?key|authorization|cookie|credential|credentials"
    r"|connection[_\- ]?string|session[_\- ]?id|security[_\- ]?code"
)
_SHORT_NAMES = r"pwd|pin|otp|cvv|cvc|auth|pat"
_ALONE = rf"(?:[A-Za-z0-9_.\-]*[_.\-])?(?:{_SHORT_NAMES})"
NAMES = rf"(?:[A-Za-z0-9_.\-]*(?:{_LONG_NAMES})|{_ALONE})"
NUMBER_NAMES = rf"(?:[A-Za-z0-9_.\-]*(?:password|passcode|secret|security[_\- ]?code)|{_ALONE})"
_BEGIN, _END = "\u2039", "\u203a"
# A backslash belongs to a value where it escapes no quote and no end of a line.
_UNQUOTED = rf"[^\s\"'\\&,;<>(){{}}\[\]{_BEGIN}]|\\[^\s\"'\\nrtu&,;<>(){{}}\[\]{_BEGIN}]"
MARK = rf"(?:{_BEGIN}|\\u2039)redacted:[A-Za-z0-9_.\-]+:[0-9a-f]{{16}}(?::[A-Za-z0-9_=\-]*)?(?:{_END}|\\u203a)"
SHORT_MARK = rf"(?:{_BEGIN}|\\u2039)redacted:[A-Za-z0-9_.\-]+(?::[0-9a-f]{{8}})?(?:{_END}|\\u203a)"
"""A mark as people see it, which carries nothing."""

ANYWHERE = "anywhere"
WEAK = "weak"
"""The value must have a digit or a capital inside it, or prose would be taken for secrets."""
QUOTED = "quoted"
"""The first group is the quote that the value begins behind; where it ends depends on how that quote is escaped."""
IN_JSON = "in JSON"
"""Found by the parsed text; the pattern says only whether a text is worth parsing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of secret.

    Args:
        kind: stands in the mark.
        pattern: RE2; what is in its first group is the secret.
        what: for the page.
        how: how it is found, one of the words above.
    """

    kind: str
    pattern: str
    what: str
    how: str = ANYWHERE


RULES: tuple[Rule, ...] = (
    Rule("mark", rf"({MARK})", "text that has the form of our own marks, so that it is never taken for one"),
    Rule(
        "private-key",
        r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)",
        "a private key in PEM or PGP armour",
    ),
    Rule("jwt", r"(eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*)", "a JSON web token"),
    Rule("aws-key-id", r"\b((?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA)[A-Z0-9]{16})\b", "an AWS access key id"),
    Rule("github", r"(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})", "a GitHub token"),
    Rule("gitlab", r"(gl(?:pat|dt|rt|ptt|ft|soat)-[A-Za-z0-9_\-]{20,})", "a GitLab token"),
    Rule("slack", r"(xox[abeoprs]-[A-Za-z0-9\-]{10,}|xapp-[A-Za-z0-9\-]{10,})", "a Slack token"),
    Rule(
        "slack-webhook",
        r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_\-]{20,})",
        "the path of a Slack webhook",
    ),
    Rule("stripe", r"\b((?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,})", "a Stripe key"),
    Rule("llm-key", r"\b(sk-[A-Za-z0-9_\-]{20,})", "a key of OpenAI, Anthropic and others that begin with sk-"),
    Rule("google", r"(AIza[A-Za-z0-9_\-]{35}|ya29\.[A-Za-z0-9_\-]{16,}|GOCSPX-[A-Za-z0-9_\-]{16,})", "a key of Google"),
    Rule("sendgrid", r"(SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,})", "a SendGrid key"),
    Rule("registry", r"(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_\-]{50,})", "a token of npm or PyPI"),
    Rule("huggingface", r"\b(hf_[A-Za-z0-9]{30,})", "a Hugging Face token"),
    Rule("twilio", r"\b((?:SK|AC)[0-9a-f]{32})\b", "a Twilio key"),
    Rule("digitalocean", r"(do[opr]_v1_[a-f0-9]{64})", "a DigitalOcean token"),
    Rule("telegram", r"\b([0-9]{8,10}:[A-Za-z0-9_\-]{35})\b", "the token of a Telegram bot"),
    Rule("azure", r"(?i)(?:AccountKey|SharedAccessKey|sig)=([A-Za-z0-9+/%]{20,}={0,2})", "a key in an Azure string"),
    Rule(
        "header",
        r"(?i)\b(?:bearer|basic|digest|apikey|token)\s+([A-Za-z0-9._~+/\-]{8,}=*)",
        "what follows Bearer, Basic or Token",
        WEAK,
    ),
    Rule("url-password", r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s/:@\"'\\]*:([^\s/@\"'\\]+)@", "the password of a URL"),
    Rule(
        "url-parameter",
        rf"(?i)[?&;](?:{NAMES}|key|sig|signature|code|x-amz-signature|x-goog-signature)=([^\s&;\"'\\#<>]+)",
        "a URL's parameter with a telling name",
    ),
    Rule(
        "named",
        rf"(?i)(?:{NAMES}s?)[\s:=]*\"\s*[:,]",
        "the JSON text, or the JSON list of texts, of a telling name",
        IN_JSON,
    ),
    Rule("named", rf"(?i)(?:{NUMBER_NAMES})[\s:=]*\"\s*[:,]", "the JSON number of a telling name", IN_JSON),
    Rule(
        "named",
        rf"(?i)\b(?:{NAMES})s?(?:\\*[\"'])?\s*[=:]\s*(\\*[\"'])",
        "a quoted value with a telling name, in any other text",
        QUOTED,
    ),
    Rule(
        "named",
        rf"(?i)\b(?:{NUMBER_NAMES})\\*[\"']\s*:\s*(-?[0-9][0-9.eE+\-]*)",
        "a number with a quoted telling name, in any other text",
    ),
    Rule(
        "named",
        rf"(?i)(?:{NAMES})s?\\*[\"']\s*:\s*(\[\s*\\*[\"'][^\[\]{{}}]*[\"']\s*\])",
        "a list of texts with a quoted telling name, in any other text",
    ),
    Rule("named", rf"(?i)\b(?:{NAMES})\s*=\s*((?:{_UNQUOTED}){{4,}})", "a value after a telling name and ="),
    Rule(
        "named",
        rf"(?i)\b(?:{NAMES})\s*:\s*((?:{_UNQUOTED}){{6,}})",
        "a value after a telling name and a colon",
        WEAK,
    ),
)
