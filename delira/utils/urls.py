"""Addresses of files elsewhere: what is one, and what of it may be shown."""

import re
from urllib.parse import parse_qsl, urlencode

_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]+"
_URL = re.compile(rf"{_SCHEME}(::{_SCHEME})*://")
_IN_TEXT = re.compile(rf"{_SCHEME}://[^\s'\"<>\\]+")
_SIGNING = re.compile(
    r"x-(amz|goog|oss|ms)-.*|awsaccesskeyid|googleaccessid|signature|sig|expires|key-pair-id|policy|security-?token"
    r"|se|sp|sv|sr|st|spr|skoid|sktid|skt|ske|sks|skv|token|access_token",
    re.IGNORECASE,
)
"""Parameters of a query that say who may read, and for how long, not what is read."""


#: of an argument or a parameter whose value is one; a ``label_key`` or a ``pad_token`` is none
SECRET_NAME = re.compile(
    r"(.*_)?(api|access|account|private|secret|shared)_?key|(access|auth|api|hf|session|security|bearer)?_?token"
    r"|(.*_)?(secret|passw(or)?d|passphrase|credentials?)",
    re.IGNORECASE,
)


def is_url(value: object) -> bool:
    """Return True if a text is an address such as ``s3://bucket/x.npy``, also one of several parts (``zip://…::…``)."""
    return isinstance(value, str) and _URL.match(value) is not None


def shown(url: str) -> str:
    """Return an address without what may be secret: user, password, query and fragment."""
    return "::".join(map(_shown_part, url.split("::")))


def without_secrets(text: str, *secrets: str) -> str:
    """Return a message of another library in which addresses are as :func:`shown`, and secrets are ``***``.

    Parameters
    ----------
    text
        The message.
    *secrets
        Texts that must not be in it, e.g. keys that were handed to the library.
    """
    text = _IN_TEXT.sub(lambda found: shown(found.group()), text)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def secrets_in(url: str) -> list[str]:
    """Return what of an address must not be shown: its queries, users and passwords."""
    found = []
    for part in url.split("::"):
        rest = part.partition("://")[2]
        found += [rest.partition("?")[2], rest.partition("/")[0].rpartition("@")[0]]
    return [text for text in found if text]


def tells_secrets(text: str) -> bool:
    """Return True if a text has an address with a user, a password, or what a query was signed by."""
    parts = (part for found in _IN_TEXT.findall(text) for part in found.split("::"))
    return any(map(_tells_secret, parts))


def named_by(url: str) -> str:
    """Return what of an address says which file it is: not who reads it, nor how a query was signed.

    It is for hashes alone: what a server does not take for a signature may still be one.
    """
    address, _, query = url.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, True) if not _SIGNING.fullmatch(name)]
    return shown(address) + (f"?{urlencode(kept)}" if kept else "")


def _tells_secret(part: str) -> bool:
    address, _, query = part.partition("#")[0].partition("?")
    signs = (_SIGNING.fullmatch(name) or SECRET_NAME.fullmatch(name) for name, _ in parse_qsl(query, True))
    return shown(address) != address or any(signs)


def _shown_part(part: str) -> str:
    scheme, separator, rest = part.partition("://")
    if not separator:
        return part
    rest, query, _ = rest.partition("?")
    rest = rest.partition("#")[0]
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = host.rpartition("@")[2]
    elif ":" in host and "@" in path:  # a password with a slash in it
        host, slash, path = rest.rpartition("@")[2].partition("/")
    return f"{scheme}://{host}{slash}{path}{'?…' if query else ''}"
