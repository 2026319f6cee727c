"""Who may come in: tokens, the Host and Origin that a browser cannot forge, and the few paths that are open."""

from __future__ import annotations

import hmac
import json
import logging
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import parse_qs, quote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.clients import UNNAMED
from gateway.doors.wire import send_json
from gateway.gateway import Gateway
from gateway.settings import Config, ServerSettings

log = logging.getLogger(__name__)

OPEN = frozenset({"/healthz", "/readyz"})
"""For probes, by any name and method."""

OPEN_TO_READ = frozenset({"/", "/openapi.json"})
"""These hold no data. So do the files under `/static/`."""

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

PATH_TOKEN = "/t/"
"""With `server.allow_path_token`, `/t/<token>/mcp` is `/mcp` with that token."""

CHALLENGE = (b"www-authenticate", b"Bearer")

NO_TOKEN = json.dumps({"error": "no token: send Authorization: Bearer <token>"}).encode()
WRONG_TOKEN = json.dumps(
    {"error": "token not accepted; is it an old one, or a ${variable} that was sent without its value?"}
).encode()
NOT_FOUND = json.dumps({"error": "not found; MCP is at POST /mcp (Streamable HTTP)"}).encode()


def client_of(scope: Scope) -> str:
    """The name of the token that let this request in; `UNNAMED` when there are none."""
    name: str = scope.get("token_name", UNNAMED)
    return name


@dataclass(frozen=True, slots=True)
class Place:
    """A host as a header or a setting names it. `port` and `scheme` None: not named."""

    host: str
    port: int | None = None
    scheme: str | None = None

    def covers(self, named: Place) -> bool:
        """Whether a request that names `named` means this setting, whose missing parts match anything."""
        return (
            self.host == named.host
            and (self.port in (None, named.port) or (named.port is None and self.port in (80, 443)))
            and self.scheme in (None, named.scheme)
        )


def place(text: str) -> Place | None:
    """`host`, `host:port`, `[v6]:port`, or one of these after `scheme://`; None when it is none of them."""
    scheme, _, rest = text.strip().lower().rpartition("://")
    try:
        parts = urlsplit("//" + rest)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.username is not None or parts.path not in ("", "/") or parts.query or parts.fragment:
        return None
    return Place(host, port, scheme or None)


class Rules:
    """One configuration's rules, made ready for many requests."""

    def __init__(self, server: ServerSettings) -> None:
        self.digests = [(sha256(each.token.encode()).digest(), each.name) for each in server.tokens]
        self.hosts = tuple(found for each in server.allowed_hosts if (found := place(each)))
        self.origins = tuple(found for each in server.allowed_origins if (found := place(each)))
        self.query_token = server.allow_query_token
        self.path_token = server.allow_path_token

    def name_of(self, token: bytes) -> str | None:
        """Whose token this is. Every configured one is compared, each in constant time."""
        digest = sha256(token).digest() if token else b""
        found = None
        for known, name in self.digests:
            if hmac.compare_digest(known, digest):
                found = name
        return found

    def listed(self, origin: str) -> bool:
        """Whether pages of `origin` may read answers."""
        asked = place(origin)
        return asked is not None and any(each.covers(asked) for each in self.origins)

    def host_refusal(self, hosts: list[str]) -> str | None:
        """Why a request for these Host headers is not served."""
        if self.digests and not self.hosts:
            return None
        named = [place(each) for each in hosts]
        if not self.digests:
            if named and all(each is not None and each.host in LOCAL_NAMES for each in named):
                return None
            return (
                "without a token only localhost, 127.0.0.1 and [::1] are served; set server.tokens to serve other names"
            )
        if named and all(each is not None and any(known.covers(each) for known in self.hosts) for each in named):
            return None
        return "this Host is not among server.allowed_hosts"

    def origin_refusal(self, origins: list[str], hosts: list[str]) -> str | None:
        """Why a page of these Origins may not call."""
        for origin in origins:
            asked = place(origin)
            if not self.digests:
                if asked is None or asked.host not in LOCAL_NAMES:
                    return "without a token only local pages may call; set server.tokens, then server.allowed_origins"
            elif not self.listed(origin):
                own = [found.host for each in hosts if (found := place(each))]
                if asked is None or asked.host not in own:
                    return "this Origin is not among server.allowed_origins"
        return None


class Access:
    """ASGI middleware: lets in who may, answers everyone else, and notes the token's name for `client_of`."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway
        self._rules_for: Config | None = None
        self._rules = Rules(ServerSettings())

    def rules(self) -> Rules:
        """Those of the configuration in force."""
        if self._rules_for is not self._gateway.config:
            self._rules_for = self._gateway.config
            self._rules = Rules(self._rules_for.server)
        return self._rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rules = self.rules()
        path, method = scope["path"], scope["method"]
        authorizations: list[bytes] = []
        hosts: list[str] = []
        origins: list[str] = []
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorizations.append(value)
            elif name == b"host":
                hosts.append(value.decode("latin-1"))
            elif name == b"origin":
                origins.append(value.decode("latin-1"))
        if origins and rules.listed(origins[0]):
            send = _with_cors(send, origins[0])
        if method == "OPTIONS":
            await _preflight(send, rules, origins, hosts)
            return
        if _is_open(path, method):
            await self._app(scope, receive, send)
            return
        if "/.well-known/" in path or path.rstrip("/") == "/register":
            # clients look here for an OAuth server; anything but a plain 404 sends them off to log in
            await send_json(send, 404, NOT_FOUND)
            return
        token, scope = _presented(scope, rules, authorizations)
        client: str | None = UNNAMED
        if rules.digests:
            client = rules.name_of(token) if token is not None else None
            if client is None:
                log.info("401: %s", "no token" if token is None else "token not accepted")
                await send_json(send, 401, NO_TOKEN if token is None else WRONG_TOKEN, CHALLENGE)
                return
        scope["token_name"] = client
        if why := rules.host_refusal(hosts):
            log.info("421: Host %s", hosts)
            await send_json(send, 421, {"error": why})
            return
        if origins and (why := rules.origin_refusal(origins, hosts)):
            log.info("403: Origin %s", origins)
            await send_json(send, 403, {"error": why})
            return
        await self._app(scope, receive, send)


def _is_open(path: str, method: str) -> bool:
    if path in OPEN:
        return True
    return method in ("GET", "HEAD") and (path in OPEN_TO_READ or path.startswith("/static/"))


def _presented(scope: Scope, rules: Rules, authorizations: list[bytes]) -> tuple[bytes | None, Scope]:
    """The token a request came with, and the request without it where it stood in the address."""
    token: bytes | None = None
    if authorizations:
        scheme, _, credentials = authorizations[0].strip().replace(b"\t", b" ").partition(b" ")
        # what is no Bearer credential is a wrong token like any other
        token = credentials.strip() if scheme.lower() == b"bearer" and len(authorizations) == 1 else b""
    elif rules.query_token and b"token=" in scope["query_string"]:
        values = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("token")
        token = values[0].encode() if values else None
    if rules.path_token and scope["path"].startswith(PATH_TOKEN):
        held, slash, rest = scope["path"][len(PATH_TOKEN) :].partition("/")
        token = held.encode() if token is None else token
        scope = {**scope, "path": slash + rest or "/", "raw_path": quote(slash + rest or "/").encode()}
    return token, scope


async def _preflight(send: Send, rules: Rules, origins: list[str], hosts: list[str]) -> None:
    """Answer OPTIONS, which browsers send without a token."""
    if why := rules.host_refusal(hosts):
        await send_json(send, 421, {"error": why})
        return
    if why := rules.origin_refusal(origins, hosts):
        await send_json(send, 403, {"error": why})
        return
    headers = [(b"allow", b"GET, POST, OPTIONS")]
    if origins and rules.listed(origins[0]):
        headers += [
            (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
            (b"access-control-allow-headers", b"*, authorization"),
            (b"access-control-max-age", b"600"),
        ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _with_cors(send: Send, origin: str) -> Send:
    """`send`, so that the page at `origin` may read what is sent."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {
                **message,
                "headers": [
                    *message["headers"],
                    (b"access-control-allow-origin", origin.encode("latin-1")),
                    (b"access-control-expose-headers", b"mcp-protocol-version, retry-after, www-authenticate"),
                    (b"vary", b"origin"),
                ],
            }
        await send(message)

    return sending
