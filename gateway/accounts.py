"""Logins with an account that lie in the state folder: where, and what of them counts in a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gateway.settings import StateSettings
from gateway.stores.opening import state_folder
from providers import HTTPProvider
from providers._login import _grant
from providers._sections import Findings


@dataclass(frozen=True, slots=True)
class Login:
    """A provider's login, for people in `state`. `keys` is empty, and `file` None, where there is none to be used."""

    state: str
    file: Path | None = None
    keys: tuple[str, ...] = field(default=(), repr=False)


NONE = Login("not logged in")


def folder(state: StateSettings) -> Path:
    """Where logins are kept: in the folder of the state file, though no other state lies there."""
    return (state.path or state_folder()) / "accounts"


def file_of(provider: str, state: StateSettings) -> Path:
    """The file with the login of `provider`."""
    return folder(state) / f"{provider}.json"


def find(vendor: type[HTTPProvider], file: Path, elsewhere: str | None, findings: Findings) -> Login:
    """What is in `file` for `vendor`, who is asked at the address `elsewhere` where that is not his own (None).

    Tokens go to the vendor himself alone, never to a relay.
    """
    try:
        grant = _grant.read(file)
    except _grant.Unusable as why:
        findings.warn(str(file), f"the login {why}; `websearch-gateway login {vendor.name}` makes another")
        return Login("the login cannot be used")
    if grant is None:
        return NONE
    findings.hide(grant.access_token, grant.refresh_token)
    if _grant.is_open(file):
        findings.warn(str(file), "holds a login, and others can read it; chmod 600 would keep it to you")
    if elsewhere is not None and urlsplit(elsewhere)[:2] != urlsplit(vendor.home)[:2]:
        home = urlsplit(vendor.home).netloc
        findings.warn(str(file), f"the login is not used: it goes to {home} alone, and {vendor.name} is set elsewhere")
        return Login("logged in, but not used")
    if grant.refused:
        findings.warn(str(file), f"the login was refused; `websearch-gateway login {vendor.name}` makes another")
        return Login("the login was refused", file, (grant.key,))
    return Login("logged in", file, (grant.key,))
