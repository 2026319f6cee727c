"""The environment, and the files it points to: variables, keys, addresses, tokens. No value is ever quoted."""

from __future__ import annotations

import os
import re
import stat
import string
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gateway import addresses
from gateway.settings import Token
from providers._sections import Findings, Found, Kind, Section, Unfit, did_you_mean, text, whole

PLAIN = ("CONFIG", "DEBUG", "HOST", "LOG", "PORT", "PROVIDERS", "TOOL_PREFIX")
SECRET = ("STATE", "TOKEN", "TOKENS")
VARIABLES = tuple(f"WEBSEARCH_{name}" for name in (*PLAIN, *SECRET, *(f"{name}_FILE" for name in SECRET)))
"""Every variable of our own."""

PROXY = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
"""Either one serves every call; the first that is set wins."""

MAX_FILE = 64 * 1024
"""Bytes a file of keys may have; more is some other file."""

SHORT_TOKEN = 16
"""Characters below which a token can be guessed."""

SHAPES = {
    # how keys begin, and the variables they belong in; from the vendors' own documentation
    "tvly-": ("TAVILY_API_KEY",),
    "xai-": ("XAI_API_KEY", "GROK_API_KEY"),
    "pplx-": ("PERPLEXITY_API_KEY",),
    "jina_": ("JINA_API_KEY",),
}

_AROUND = string.whitespace + "\"'`“”‘’\u00a0\u3000\u200b\u200c\u200d\u2060\ufeff"
_PARTS = re.compile(r"(?:\$\{[^}]*\}?|[^,，;；\r\n])+")
_ORCHESTRATED = re.compile(r"WEBSEARCH_GATEWAY_(SERVICE_(HOST|PORT)\w*|PORT_\d+_\w+)=.*|WEBSEARCH_GATEWAY_PORT=tcp:.*")
"""What Kubernetes sets in every pod beside a service called websearch-gateway."""


class Variables:
    """Named values: from the environment, and for secrets also from the file's `credentials`, which come second."""

    def __init__(self, environ: Mapping[str, str], findings: Findings) -> None:
        self.environ = environ
        self.findings = findings
        self.credentials: dict[str, str] = {}

    def add(self, section: Section, names: Iterable[str]) -> None:
        """Let the file's `credentials` stand in for variables that are not set."""
        for name in names:
            for spelling in (name, f"{name}_FILE"):
                if section.names(spelling):
                    self.credentials[spelling] = section.take(spelling, text, "")
                else:
                    section.raw(spelling)

    def plain(self, name: str) -> Found | None:
        """The variable `name`, cleaned; None when it is not set, empty, or a template that nobody filled in."""
        value = self._clean(name, self.environ.get(name, ""))
        return None if value is None else Found(value, name, f"env {name}")

    def secret(self, name: str) -> Found | None:
        """The secret `name`: the variable, the file that `<name>_FILE` points to, or the same two in `credentials`."""
        found = self._secret(name)
        if name not in VARIABLES:
            self.findings.origins[f"credentials.{name}"] = found.origin if found else "default"
        return found

    def _secret(self, name: str) -> Found | None:
        for values, prefix, origin in (
            (self.environ, "", f"env {name}"),
            (self.credentials, "credentials.", "file"),
        ):
            place, pointer = f"{prefix}{name}", f"{name}_FILE"
            if (value := self._clean(place, values.get(name, ""), several=True)) is not None:
                if values.get(pointer):
                    self.findings.warn(place, f"wins over {pointer}, which is not read")
                return Found(value, place, origin)
            if (path := self._clean(f"{prefix}{pointer}", values.get(pointer, ""))) is not None:
                content = self._content(f"{prefix}{pointer}", path)
                if content is not None:
                    return Found(content, f"{prefix}{pointer}", origin if prefix else f"env {pointer}")
        return None

    def is_written(self, name: str) -> bool:
        """Whether the environment names the secret at all, if only as an empty text."""
        return name in self.environ or f"{name}_FILE" in self.environ

    def _clean(self, place: str, value: str, *, several: bool = False) -> str | None:
        bare = _bare(place, value, self.findings)
        parts = _PARTS.findall(bare) if several else [bare]
        if parts and all("${" in part for part in parts):
            _unexpanded(place, self.findings)
            return None
        return bare or None

    def _content(self, place: str, name: str) -> str | None:
        path = Path(home(name, self.environ))
        try:
            with path.open("rb") as file:
                mode, raw = os.fstat(file.fileno()).st_mode, file.read(MAX_FILE + 1)
            content = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            self.findings.wrong(place, f"{_path(name)} is not UTF-8 text")
        except (OSError, ValueError) as error:
            self.findings.wrong(place, f"{_path(name)} cannot be read: {why(error)}")
        else:
            if len(raw) > MAX_FILE:
                self.findings.wrong(place, f"{_path(name)} is over 64 KiB, no file of keys")
                return None
            if is_open(path, mode):
                self.findings.warn(place, f"others can read {_path(name)}; chmod 600 would keep it to you")
            # every editor ends a file with a line end: nothing to warn about
            bare = _bare(place, re.sub(r"\r?\n\Z", "", content), self.findings)
            if not bare:
                self.findings.warn(place, f"{_path(name)} is empty")
            return bare or None
        return None


def home(path: str, environ: Mapping[str, str]) -> str:
    """`path` with a leading `~` resolved."""
    own = environ.get("HOME") or environ.get("USERPROFILE") or "~"
    return own + path[1:] if re.match(r"~(?=[/\\]|$)", path) else path


def why(error: Exception) -> str:
    """The reason of a failed read, without the path or anything of the content."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "no usable path"


def is_open(path: Path, mode: int) -> bool:
    """Whether a file with keys can be read by everybody on this machine.

    Docker and Kubernetes mount secrets readable by all inside a container; there nobody else is.
    """
    return os.name == "posix" and bool(mode & stat.S_IROTH) and not path.is_relative_to("/run/secrets")


# ---------------------------------------------------------------------------------------------------------------------
# keys


def keys(found: Found | None, findings: Findings) -> tuple[str, ...]:
    """The keys in one value, in order, each once."""
    kept: list[str] = []
    for key, place in _parts(found, findings):
        findings.hide(key)
        if not all(" " <= sign <= "~" for sign in key):
            findings.wrong(place, "holds signs that are not printable ASCII; no key has them: copy it again")
            continue
        if " " in key:
            findings.warn(place, "holds a space; is it one key, without 'Bearer'?")
        if "://" in key:
            findings.warn(place, "looks like an address, not a key")
        _check_shape(key, place, findings)
        if key in kept:
            findings.warn(place, "holds the same key twice; the second is dropped")
        else:
            kept.append(key)
    return tuple(kept)


def several_addresses(found: Found | None, findings: Findings) -> tuple[str, ...]:
    """The addresses in one value, in order, each once and whole."""
    kept: list[str] = []
    for written, place in _parts(found, findings):
        address = read_address(written, place, findings)
        if address in kept:
            findings.warn(place, "holds the same address twice; the second is dropped")
        elif address is not None:
            kept.append(address)
    return tuple(kept)


def read_address(written: str, place: str, findings: Findings) -> str | None:
    """One address, whole. A mistake is noted without repeating it: it may hold a password."""
    findings.hide(*addresses.secrets(written))
    address = addresses.cleaned(written)
    if any(written.startswith(shape) for shape in SHAPES):
        findings.hide(written)
        findings.wrong(place, "looks like a key, not an address")
        return None
    if address is None:
        findings.wrong(place, "must be an address such as http://localhost:8080: http or https, and a host")
    elif addresses.has_query(written):
        findings.warn(place, "what follows the '?' or '#' of the address is left out")
    return address


def proxy_address(written: str, place: str, findings: Findings) -> str | None:
    """One proxy, whole. A mistake is noted without repeating it."""
    findings.hide(*addresses.secrets(written))
    if re.match(r"socks", written, re.IGNORECASE):
        findings.wrong(place, "SOCKS is not spoken here; name the proxy's http:// or https:// address")
        return None
    address = addresses.cleaned(written)
    if address is None:
        findings.wrong(place, "must be the address of a proxy such as http://proxy.example:3128")
    return address


def _parts(found: Found | None, findings: Findings) -> Iterator[tuple[str, str]]:
    if found is None:
        return
    parts = [part for part in _PARTS.findall(found.value) if part.strip(_AROUND)]
    for part in parts:
        if "${" in part:
            _unexpanded(found.place, findings)
        else:
            yield _bare(found.place, part.strip(), findings), found.place


def _bare(place: str, value: str, findings: Findings) -> str:
    bare = value.strip(_AROUND)
    if bare != value and bare:
        findings.warn(place, "quotes, spaces or line ends around the value were left out")
    return bare


def _unexpanded(place: str, findings: Findings) -> None:
    findings.warn(place, "holds a ${…} that nobody filled in, and counts as unset")


def _check_shape(key: str, place: str, findings: Findings) -> None:
    name = place.removeprefix("credentials.").removesuffix("_FILE")
    for shape, variables in SHAPES.items():
        if key.startswith(shape) and name not in variables:
            findings.warn(place, f"holds a key that looks like one for {' or '.join(variables)}")


# ---------------------------------------------------------------------------------------------------------------------
# tokens


def tokens(variables: Variables, written: object, findings: Findings) -> tuple[Token, ...]:
    """Who may come in: from `WEBSEARCH_TOKEN` or `WEBSEARCH_TOKENS`, else from the file's `server.tokens`.

    A token that is there but empty is a mistake, never an open door.
    """
    from_file = _from_list(written, findings)
    given = [name for name in ("WEBSEARCH_TOKEN", "WEBSEARCH_TOKENS") if variables.is_written(name)]
    if not given:
        findings.origins["server.tokens"] = "default" if written is None else "file"
        return from_file
    if len(given) == 2:
        findings.wrong("WEBSEARCH_TOKEN", "is set beside WEBSEARCH_TOKENS; set one of the two")
    found = variables.secret(given[0])
    one = given[0] == "WEBSEARCH_TOKEN"
    if found is None or (one and "${" in found.value):
        findings.wrong(given[0], "is there but empty, which would let everybody in; set it or remove it")
        return ()
    findings.origins["server.tokens"] = found.origin
    pairs = [("default", found.value)] if one else list(_named(found, findings))
    return _checked(((name, token, found.place, None) for name, token in pairs), findings)


def _named(found: Found, findings: Findings) -> Iterator[tuple[str, str]]:
    parts = [_bare(found.place, part.strip(), findings) for part in _PARTS.findall(found.value)]
    parts = [part for part in parts if part]
    for part in parts:
        name, colon, token = part.partition(":")
        if "${" in part:
            _unexpanded(found.place, findings)
            yield name, ""
        elif colon:
            yield name.strip(), token.strip()
        elif len(parts) == 1:
            yield "default", part
        else:
            findings.hide(part)
            findings.wrong(found.place, "must be name:token pairs, separated by commas")


def _from_list(written: object, findings: Findings) -> tuple[Token, ...]:
    if written is None:
        return ()
    if not isinstance(written, list):
        findings.wrong("server.tokens", "must be a list of {name, token} objects")
        return ()
    read: list[tuple[str, str, str, int | None]] = []
    limit: Kind[int | None] = whole(0)
    for index, item in enumerate(written):
        section = Section(f"server.tokens[{index}]", item, findings)
        name = section.take("name", text, "default" if len(written) == 1 else "")
        token = _bare(section.at("token"), section.take("token", text, ""), findings)
        if "${" in token:
            _unexpanded(section.at("token"), findings)
            token = ""
        read.append((name, token, section.place, section.take("daily_limit", limit, None)))
        section.close()
    return _checked(read, findings)


def _checked(read: Iterable[tuple[str, str, str, int | None]], findings: Findings) -> tuple[Token, ...]:
    kept: dict[str, Token] = {}
    for name, token, place, daily_limit in read:
        findings.hide(token)
        if not token:
            findings.wrong(place, "a token is there but empty, which would let everybody in; set it or remove it")
        elif not all("!" <= sign <= "~" for sign in token):
            findings.wrong(place, "a token must be printable ASCII without spaces")
        elif len(token) < SHORT_TOKEN:
            findings.warn(place, f"a token has fewer than {SHORT_TOKEN} characters; `token new` makes a better one")
        if not re.fullmatch(r"[\w.@-]{1,64}", name):
            findings.wrong(place, "a token needs a name of letters, digits and _ . @ -, at most 64")
        elif name in kept:
            findings.wrong(place, "two tokens have the same name")
        if token and token in (other.token for other in kept.values()):
            findings.wrong(place, "the same token stands there twice, under two names")
        kept[name] = Token(name, token, daily_limit)
    return tuple(kept.values())


# ---------------------------------------------------------------------------------------------------------------------
# what nobody reads


def strays(variables: Variables, credentials: Iterable[str]) -> None:
    """Warn of variables that were probably meant for us and that nobody reads."""
    names = tuple(credentials)
    for name, value in sorted(variables.environ.items()):
        if not value or _ORCHESTRATED.fullmatch(f"{name}={value}"):
            continue
        if name.startswith("WEBSEARCH_") and name not in VARIABLES:
            hint = did_you_mean(name, VARIABLES) or ""
            variables.findings.warn(name, f"no such variable{hint}")
        numbered = re.fullmatch(r"(\w+?)(?:_?\d+|S)(?:_FILE)?", name)
        if numbered and name not in names and numbered[1] in names:
            variables.findings.warn(name, f"is not read; several go into {numbered[1]}, separated by commas")


def read_host(value: object) -> str:
    """A host name or address to listen on."""
    if isinstance(value, str) and addresses.is_host(bare := value.strip("[]")):
        return bare
    raise Unfit("must be a host name or an IP address, without scheme and port")


def _path(name: str) -> str:
    # somebody may have put the key itself where its file should be named
    looks = ("/" in name or "\\" in name or "." in name) and not any(name.startswith(shape) for shape in SHAPES)
    return name if looks else "the file it names"
