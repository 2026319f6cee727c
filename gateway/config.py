"""File and environment become typed settings, or one readable list of everything that is wrong.

The file is the one that `WEBSEARCH_CONFIG` names, else `websearch-gateway/config.json` in the user's configuration
folder; the current folder is never searched. Environment beats file. A setting that is left out, or null, keeps its
default.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import TypeVar
from urllib.parse import urlsplit

from gateway import addresses, credentials, declared, lineup
from gateway.credentials import Variables
from gateway.settings import (
    CacheSettings,
    Config,
    Defaults,
    Network,
    ProviderSettings,
    ServerSettings,
    StateSettings,
    Token,
)
from gateway.showing import show
from providers._sections import (
    Findings,
    Kind,
    Members,
    Section,
    Unfit,
    choice,
    digits,
    each,
    flag,
    number,
    one_line,
    switch,
    text,
    whole,
)

T = TypeVar("T")

__all__ = [
    "CacheSettings",
    "Config",
    "ConfigUnparsable",
    "Defaults",
    "Network",
    "ProviderSettings",
    "ServerSettings",
    "StateSettings",
    "Token",
    "check",
    "load",
    "show",
    "user_file",
]

MOST_WORKERS = 64

DECISIVE = (
    "server",
    "state",
    "WEBSEARCH_HOST",
    "WEBSEARCH_PORT",
    "WEBSEARCH_STATE",
    "WEBSEARCH_STATE_FILE",
    "WEBSEARCH_TOKEN",
    "WEBSEARCH_TOKEN_FILE",
    "WEBSEARCH_TOKENS",
    "WEBSEARCH_TOKENS_FILE",
)
"""Where a mistake ends the program: who may come in, or what is remembered where, would be a guess."""


class ConfigUnparsable(Exception):  # noqa: N818 -- it is a state of the configuration
    """The configuration cannot even be used to say what is wrong with it: the program ends with exit 2.

    `complaints` holds everything that is wrong, each as `place: complaint`, without secrets.
    """

    def __init__(self, complaints: Iterable[str], warnings: Iterable[str] = ()) -> None:
        self.complaints = tuple(complaints)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(self.complaints))


def load(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Config:
    """The effective configuration. Mistakes are in its `errors`, all of them at once.

    Raises `ConfigUnparsable` when there is no telling who may come in: the file cannot be parsed, or the faults are in
    `server`, `state` or the variables behind them.
    """
    findings = Findings()
    variables = Variables(environ, findings)
    file = _file(variables, platform)
    top = Section("", file.content, findings)
    written = top.raw("providers")
    tables = declared.tables(written, findings)
    names = lineup.credential_names(tables)
    section = top.section("credentials")
    variables.add(section, names)
    section.close()
    network = _network(variables)
    defaults = _defaults(top.section("defaults"))
    state = _state(top.section("state"), variables)
    config = Config(
        source=one_line(str(file.path)) if file.path else None,
        network=network,
        defaults=defaults,
        providers=lineup.read(written, tables, variables, network, defaults, state),
        cache=_cache(top.section("cache")),
        state=state,
        server=_server(top.section("server"), variables),
        tool_prefix=_of_variable(variables, "tool_prefix", _prefix, ""),
        debug=_of_variable(variables, "debug", switch, False),
        log_level=_of_variable(variables, "log", choice("error", "warn", "info", "debug"), "info"),
    )
    meant = top.close()
    credentials.strays(variables, names)
    if file.is_open and any(secret.encode() in file.raw for secret in findings.secrets):
        findings.warn(str(file.path), "holds keys, and others can read it; chmod 600 would keep them to you")
    errors, warnings = findings.errors_at(), tuple(findings.remarks)
    if not file.is_readable or findings.errors_at(DECISIVE) or not {"server", "state"}.isdisjoint(meant):
        raise ConfigUnparsable(errors, warnings)
    return replace(
        config, errors=errors, warnings=warnings, secrets=tuple(findings.secrets), origins=dict(findings.origins)
    )


def check(environ: Mapping[str, str] = os.environ) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All errors and all warnings of the configuration, as `place: complaint`."""
    try:
        config = load(environ)
    except ConfigUnparsable as fault:
        return fault.complaints, fault.warnings
    return config.errors, config.warnings


# ---------------------------------------------------------------------------------------------------------------------
# the file


def user_file(environ: Mapping[str, str], platform: str = sys.platform) -> PurePath | None:
    """Where the file is looked for when nobody names one; None when the user has no such folder.

    A relative folder is none: it would make the current folder count.
    """
    if platform == "win32":
        folders: list[PurePath] = [PureWindowsPath(environ.get("APPDATA", ""))]
    else:
        folders = [PurePosixPath(environ.get("XDG_CONFIG_HOME", "")), PurePosixPath(environ.get("HOME", ""), ".config")]
    absolute = (folder for folder in folders if folder.is_absolute())
    folder = next(absolute, None)
    return folder / "websearch-gateway" / "config.json" if folder else None


@dataclass(frozen=True, slots=True)
class File:
    """The file as it was found; `is_open` when everybody on this machine can read it."""

    path: Path | None = None
    raw: bytes = field(default=b"", repr=False)
    content: object = field(default=None, repr=False)
    is_readable: bool = True
    is_open: bool = False


def _file(variables: Variables, platform: str) -> File:
    named = variables.plain("WEBSEARCH_CONFIG")
    if named is not None:
        path = Path(credentials.home(named.value, variables.environ))
    elif (usual := user_file(variables.environ, platform)) is not None:
        path = Path(usual)
    else:
        return File()
    try:
        with path.open("rb") as file:
            mode, raw = os.fstat(file.fileno()).st_mode, file.read()
        return File(path, raw, _parsed(raw), is_open=credentials.is_open(path, mode))
    except Unfit as unfit:
        variables.findings.wrong(str(path), str(unfit))
    except (OSError, ValueError) as error:
        if named is None and not os.path.exists(path):  # (pathlib's own raises where a folder may not be entered)
            return File()
        place = f"{named.place}: {path}" if named else str(path)
        variables.findings.wrong(place, f"cannot be read: {credentials.why(error)}")
    return File(path, is_readable=False)


def _parsed(raw: bytes) -> object:
    """The JSON object in `raw`. Raises `Unfit` with line and column, and nothing of what stands there."""
    try:
        content: object = json.loads(raw, object_pairs_hook=Members.of)
    except json.JSONDecodeError as error:
        raise Unfit(f"is not JSON: line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError:
        raise Unfit("is not JSON: not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise Unfit("is not JSON: a number too long, or too many levels") from None
    if isinstance(content, dict):
        return content
    raise Unfit("must hold a JSON object")


# ---------------------------------------------------------------------------------------------------------------------
# sections


def _of_variable(variables: Variables, name: str, kind: Kind[T], default: T) -> T:
    """A setting that only a variable has."""
    nowhere = Section("", None, variables.findings)
    return nowhere.take(name, kind, default, variables.plain(f"WEBSEARCH_{name.upper()}"))


def _prefix(value: object) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,32}", str(value)):
        return str(value)
    raise Unfit("must be letters, digits, _ and -, at most 32")


def _network(variables: Variables) -> Network:
    found = next((found for name in credentials.PROXY if (found := variables.plain(name))), None)
    proxy = credentials.proxy_address(found.value, found.place, variables.findings) if found else None
    variables.findings.origins["network.proxy"] = found.origin if found else "default"
    direct = variables.plain("NO_PROXY") or variables.plain("no_proxy")
    variables.findings.origins["network.no_proxy"] = direct.origin if direct else "default"
    if direct is None:
        return Network(proxy=proxy)
    return Network(proxy=proxy, no_proxy=tuple(entry for entry in re.split(r"[,\s]+", direct.value) if entry))


def _defaults(section: Section) -> Defaults:
    usual = Defaults()
    defaults = Defaults(
        timeout_ms=section.take("timeout_ms", whole(1), usual.timeout_ms),
        total_budget_ms=section.take("total_budget_ms", whole(100), usual.total_budget_ms),
        cooldown_default_s=section.take("cooldown_default_s", number, usual.cooldown_default_s),
        cooldown_max_s=section.take("cooldown_max_s", number, usual.cooldown_max_s),
        max_output_chars=section.take("max_output_chars", whole(0), usual.max_output_chars),
    )
    section.close()
    return defaults


def _cache(section: Section) -> CacheSettings:
    usual = CacheSettings()
    cache = CacheSettings(
        enabled=section.take("enabled", flag, usual.enabled),
        ttl_s=section.take("ttl_s", number, usual.ttl_s),
        ttl_fresh_s=section.take("ttl_fresh_s", number, usual.ttl_fresh_s),
        max_entries=section.take("max_entries", whole(0), usual.max_entries),
        stale_if_error_s=section.take("stale_if_error_s", number, usual.stale_if_error_s),
    )
    section.close()
    return cache


def _state(section: Section, variables: Variables) -> StateSettings:
    findings, usual = section.findings, StateSettings()
    type_ = section.take("type", choice("sqlite", "memory", "redis"), usual.type)
    path = section.take("path", _folder(variables), None)
    url = section.take("url", _redis_url(findings), None)
    prefix = section.take("prefix", _key_prefix, usual.prefix)
    written = section.names("url")
    section.close()
    if (found := variables.secret("WEBSEARCH_STATE")) is not None:
        for name in ("type", "path", "url"):
            findings.origins[f"state.{name}"] = found.origin
        try:
            state = _state_of_variable(found.value, prefix, variables)
        except Unfit as unfit:
            findings.wrong(found.place, str(unfit))
            return usual
        place = found.place
    else:
        if path is not None and type_ != "sqlite":
            findings.warn("state.path", f"is not used: {type_} needs no folder")
        if written and type_ != "redis":
            findings.warn("state.url", f"is not used: {type_} has no server")
        if type_ == "redis" and not written:
            findings.wrong("state.url", "is needed with the type 'redis': redis://host:6379/0")
        state = StateSettings(type_, path if type_ == "sqlite" else None, url if type_ == "redis" else None, prefix)
        place = "state.type"
    if state.type == "redis" and find_spec("redis") is None:
        findings.wrong(place, "needs the package redis: pip install 'websearch-gateway[redis]'")
    return state


def _state_of_variable(written: str, prefix: str, variables: Variables) -> StateSettings:
    if written == "memory":
        return StateSettings("memory", prefix=prefix)
    if re.match(r"(rediss?|valkeys?|unix):/", written):
        return StateSettings("redis", url=_redis_url(variables.findings)(written), prefix=prefix)
    variables.findings.hide(*addresses.secrets(written) if "://" in written else ())
    # a bare word is more likely a slip of the pen than a folder
    if "://" in written or not re.search(r"[/\\]", written):
        raise Unfit("must be 'memory', the path of a folder, or redis://host:6379/0")
    try:
        folder = Path(credentials.home(written, variables.environ)).absolute()
    except OSError as error:
        raise Unfit(f"must be a whole path, for there is no current folder: {credentials.why(error)}") from None
    return StateSettings("sqlite", folder, prefix=prefix)


def _redis_url(findings: Findings) -> Kind[str | None]:
    def read(value: object) -> str:
        written = text(value)
        findings.hide(*addresses.passwords(written))
        url = re.sub(r"^valkey(s?)://", r"redis\1://", written)
        try:
            parts = urlsplit(url)
            if parts.scheme == "unix":
                usable = parts.hostname is None and parts.path not in ("", "/")
            else:
                usable = addresses.is_host(parts.hostname or "") and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.scheme not in ("redis", "rediss", "unix") or not url.isprintable():
            raise Unfit("must be an address such as redis://host:6379/0, rediss:// for TLS, or unix:///path")
        if parts.scheme != "unix" and not re.fullmatch(r"/?|/[0-9]{1,4}", parts.path):
            raise Unfit("must end with the number of a database, as in redis://host:6379/0, or with none")
        if find_spec("redis") is not None:
            _check_options(url)
        return url

    return read


def _check_options(url: str) -> None:
    """Raises `Unfit` when the driver does not know an option behind the `?`, or what it is set to."""
    from gateway.stores._line import connection  # its package is there only where somebody wanted it

    try:
        connection(url)
    except ValueError as error:
        raise Unfit(str(error)) from None


def _key_prefix(value: object) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", written := text(value)):
        return written
    raise Unfit("must be letters, digits and _ . : -, at most 64")


def _folder(variables: Variables) -> Kind[Path | None]:
    def read(value: object) -> Path:
        path = Path(credentials.home(text(value), variables.environ))
        if not path.is_absolute() or not str(path).isprintable():
            raise Unfit("must be the whole path of a folder, from the root or from ~")
        return path

    return read


def _server(section: Section, variables: Variables) -> ServerSettings:
    usual = ServerSettings()
    server = ServerSettings(
        host=section.take("host", credentials.read_host, usual.host, variables.plain("WEBSEARCH_HOST")),
        port=section.take("port", whole(0, 65535), usual.port, variables.plain("WEBSEARCH_PORT"), digits(0, 65535)),
        workers=section.take("workers", whole(1, MOST_WORKERS), usual.workers),
        max_in_flight=section.take("max_in_flight", whole(1), usual.max_in_flight),
        max_in_flight_per_client=section.take("max_in_flight_per_client", whole(1), usual.max_in_flight_per_client),
        allowed_hosts=section.take("allowed_hosts", each(_allowed_host), ()),
        allowed_origins=section.take("allowed_origins", each(_allowed_origin), ()),
        tokens=credentials.tokens(variables, section.raw("tokens"), section.findings),
        allow_query_token=section.take("allow_query_token", flag, usual.allow_query_token),
        allow_path_token=section.take("allow_path_token", flag, usual.allow_path_token),
    )
    section.close()
    if len(server.tokens) > 1 and server.max_in_flight_per_client >= server.max_in_flight:
        remark = "is no less than max_in_flight, so that one client may take every place"
        section.findings.warn(section.at("max_in_flight_per_client"), remark)
    return server


def _allowed_host(value: object) -> str:
    written = text(value)
    named = re.fullmatch(r"\[(?P<six>[^\]]*)\](?::\d{1,5})?|(?P<name>[^:]*)(?::\d{1,5})?|(?P<bare>.*)", written)
    if named and addresses.is_host(named["six"] or named["name"] or named["bare"] or ""):
        return written.lower()
    raise Unfit("must be a host such as search.example.com or search.example.com:8443, without scheme and path")


def _allowed_origin(value: object) -> str:
    written = text(value)
    scheme, mark, host = written.rpartition("://")
    if mark and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        raise Unfit("must be an origin such as https://app.example.com")
    try:
        return f"{scheme}{mark}".lower() + _allowed_host(host.removesuffix("/"))
    except Unfit:
        raise Unfit("must be an origin such as https://app.example.com, without a path") from None
