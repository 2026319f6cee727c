"""An authority to play with: a real HTTP server that gives logins as OpenID Connect has it, and rotates tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections import deque
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from providers._login._grant import Authority, Grant
from providers.grok import ACCOUNT
from tests.vendors import Play, Played, Request, Script, json_play, success

LASTS_S = 3600.0

STALE = {"code": "unauthenticated:bad-credentials", "error": "The OAuth2 access token could not be validated."}


def jwt(**claims: object) -> str:
    """A token that says `claims`, signed by nobody."""
    head, body, sign = (base64.urlsafe_b64encode(each).decode().rstrip("=") for each in _parts(claims))
    return f"{head}.{body}.{sign}"


def _parts(claims: dict[str, object]) -> tuple[bytes, bytes, bytes]:
    return b'{"alg":"RS256"}', json.dumps(claims).encode(), secrets.token_bytes(24)


def form(request: Request) -> dict[str, str]:
    """The fields of a posted form."""
    return dict(parse_qsl(request.body.decode(), keep_blank_values=True))


class PlayedAuthority(Played):
    """`async with PlayedAuthority(now) as authority`; `now` is its clock, seconds since the epoch.

    What is scripted for `token` goes before its own behaviour: a refresh token counts once, and gives the next.
    """

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now
        self.scripted: dict[str, deque[Script]] = {"token": deque(), "revoke": deque(), "discovery": deque()}
        self.asked: list[Request] = []
        self.refresh_tokens: set[str] = set()
        self.access_tokens: set[str] = set()
        self.codes: dict[str, dict[str, str]] = {}
        self.id_token: dict[str, object] | None = {}
        """Claims on top of the nonce; None: no ID token comes along."""

    @property
    def facts(self) -> Authority:
        """How a login finds the way here; any port will do for the way back."""
        return Authority(self.url, ACCOUNT.client_id, ACCOUNT.scope, 0, ACCOUNT.path, ACCOUNT.extra)

    def grant(self, lasts_s: float = LASTS_S, **changes: Any) -> Grant:
        """A login that was made here earlier."""
        made = self._made(lasts_s)
        fields = {
            "id": secrets.token_hex(8),
            "issuer": self.url,
            "client_id": ACCOUNT.client_id,
            "token_endpoint": f"{self.url}/token",
            "access_token": made["access_token"],
            "refresh_token": made["refresh_token"],
            "expires_at": self.now + lasts_s,
            "revocation_endpoint": f"{self.url}/revoke",
        }
        return Grant(**{**fields, **changes})

    def posted(self, part: str = "token") -> list[dict[str, str]]:
        """What was posted to it so far."""
        return [form(request) for request in self.asked if request.path == f"/{part}" and request.method == "POST"]

    def arrived(self, method: str, path: str, head: bytes, body: bytes, version: str) -> tuple[Request, Play]:
        part = "discovery" if "/.well-known/" in path else urlsplit(path).path.strip("/")
        request = Request(part, method, path, head, body)
        self.asked.append(request)
        if scripted := self.scripted.get(part):
            play = scripted.popleft()
        else:
            play = {
                "discovery": self._discovery,
                "authorize": self._authorize,
                "token": self._token,
                "revoke": self._revoke,
            }[part]
        self._tell()
        return request, play if isinstance(play, Play) else play(request)

    async def until_asked(self, n: int, limit_s: float = 10.0) -> None:
        """Until that many requests have come. Raises TimeoutError."""
        await self._until(lambda: len(self.asked) >= n, limit_s)

    # -----------------------------------------------------------------------------------------------------------------

    def _discovery(self, request: Request) -> Play:
        assert request.path == "/.well-known/openid-configuration"
        doors = {"authorization": "authorize", "token": "token", "revocation": "revoke"}
        return json_play({"issuer": self.url} | {f"{name}_endpoint": f"{self.url}/{at}" for name, at in doors.items()})

    def _authorize(self, request: Request) -> Play:
        asked = dict(parse_qsl(urlsplit(request.path).query))
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
        return Play(302, {"location": back})

    def _token(self, request: Request) -> Play:
        told = form(request)
        if told["grant_type"] == "refresh_token":
            if told["refresh_token"] not in self.refresh_tokens or told["client_id"] != ACCOUNT.client_id:
                return json_play({"error": "invalid_grant", "error_description": "Refresh token has been revoked"}, 400)
            self.refresh_tokens.remove(told["refresh_token"])
            self.access_tokens.clear()
            return json_play(self._made())
        asked = self.codes.pop(told["code"])
        digest = hashlib.sha256(told["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert (asked["code_challenge"], asked["code_challenge_method"]) == (challenge, "S256")
        assert (asked["redirect_uri"], asked["client_id"]) == (told["redirect_uri"], told["client_id"])
        made = self._made()
        if self.id_token is not None:
            made["id_token"] = jwt(**{"nonce": asked["nonce"], "email": "who@example.com", **self.id_token})
        return json_play(made)

    def _revoke(self, request: Request) -> Play:
        self.refresh_tokens.discard(form(request)["token"])
        return Play(200)

    def _made(self, lasts_s: float = LASTS_S) -> dict[str, Any]:
        access, refresh = jwt(exp=self.now + lasts_s, iss=self.url), f"rt-{secrets.token_urlsafe(24)}"
        self.access_tokens.add(access)
        self.refresh_tokens.add(refresh)
        return {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": lasts_s}

    def xai(self, request: Request) -> Play:
        """What xAI says: only the newest token counts."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return success("grok")(request) if token in self.access_tokens else json_play(STALE, 403)
