"""Options of an S3 store, spelled as for s3fs, and the boto3 clients made from them.

Without `key` and `secret` the default credential chain applies: environment, profile, instance role. boto3 itself
honours AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_S3.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

import botocore.session
from boto3.session import Session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from lithify.store.errors import InvalidRequest
from lithify.store.s3_replies import ReplyParsers
from lithify.store.s3_way import way_to
from lithify.store.side_by_side import THREADS_MAX

__all__ = ["SECRET_OPTIONS", "S3Options"]

SECRET_OPTIONS = frozenset({"key", "secret", "token"})
_KNOWN = SECRET_OPTIONS | {"profile", "anon", "endpoint_url", "client_kwargs", "config_kwargs", "s3_additional_kwargs"}
_KNOWN_CLIENT = frozenset({"endpoint_url", "region_name", "verify", "use_ssl"})
_KNOWN_ADDITIONAL = frozenset(
    {
        *("ServerSideEncryption", "SSEKMSKeyId", "SSEKMSEncryptionContext", "BucketKeyEnabled"),
        *("ACL", "StorageClass", "RequestPayer", "ExpectedBucketOwner"),
    }
)
_CREDENTIALS_IN_URL = re.compile(r"://[^/]*@")
_CONNECTIONS_MAX = 2 * THREADS_MAX  # those beside the pool's read and upload; a client keeps no more open
_CONNECT_TIMEOUT_S = 5
_CREATE_READ_TIMEOUT_S = 10
_BULK_READ_TIMEOUT_S = 60
_HASTY_TIMEOUTS_S = {"connect_timeout": 2, "read_timeout": 5}


def _in_proxies(config: Any) -> bool:
    """Whether a proxy's user is there: botocore takes it without a scheme, too. "user:password@proxy:3128"."""
    proxies = config.get("proxies") if isinstance(config, Mapping) else None
    return isinstance(proxies, Mapping) and any("@" in str(value) for value in proxies.values())


class S3Options:
    """Checked options. They hold secrets, so they are never shown and never leave the process."""

    __slots__ = ("_options", "additional")

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        given = dict(options or {})
        _refuse_unknown("storage option", given, _KNOWN)
        for name, known in (("client_kwargs", _KNOWN_CLIENT), ("s3_additional_kwargs", _KNOWN_ADDITIONAL)):
            _refuse_unknown(f"{name} entry", _mapping(given, name), known)
        for name in ("client_kwargs", "config_kwargs", "endpoint_url"):
            held = given.get(name, "")
            if _CREDENTIALS_IN_URL.search(str(held)) or _in_proxies(held):
                raise InvalidRequest(
                    f"storage option {name} holds a URL with a user or password in it: give them as 'key' and "
                    "'secret', or in the environment (HTTPS_PROXY)"
                )
        wrong = sorted(name for name in SECRET_OPTIONS if not isinstance(given.get(name, ""), str | None))
        if wrong:
            raise InvalidRequest(f"storage option {', '.join(wrong)} must be text (in JSON, in quotes)")
        if ("key" in given) != ("secret" in given):
            raise InvalidRequest("storage options 'key' and 'secret' belong together: give both, or neither")
        self._options = given
        self.additional: dict[str, Any] = _mapping(given, "s3_additional_kwargs")

    def __repr__(self) -> str:
        return f"S3Options({self.public()!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("storage options may hold secrets and are never pickled")

    def public(self) -> dict[str, Any]:
        """All options except the secrets, for another process."""
        return {name: value for name, value in self._options.items() if name not in SECRET_OPTIONS}

    def secrets(self) -> dict[str, Any]:
        return {name: value for name, value in self._options.items() if name in SECRET_OPTIONS}

    def identity(self) -> tuple[Any, ...]:
        """Equal for options that make requests in the same name."""
        return tuple(self._options.get(name) for name in (*sorted(SECRET_OPTIONS), "profile", "anon"))

    def way(self, client: Any) -> dict[str, Any]:
        """For a worker: the options without secrets, and where `client` sends requests, however that was decided."""
        undirected = {**self._options, "client_kwargs": _mapping(self._options, "client_kwargs")}
        undirected.pop("endpoint_url", None)
        undirected["client_kwargs"].pop("endpoint_url", None)
        undirected["config_kwargs"] = {
            **_mapping(self._options, "config_kwargs"),
            "ignore_configured_endpoint_urls": True,
        }
        alone = S3Options(undirected)
        default = alone.bulk_client(alone.session())
        try:
            return way_to(self.public(), client, str(default.meta.endpoint_url))
        finally:
            default.close()

    def hasty(self) -> dict[str, Any]:
        """The same options, for a client that gives up within seconds."""
        given = _mapping(self._options, "config_kwargs")
        timeouts = {name: min(given.get(name, limit), limit) for name, limit in _HASTY_TIMEOUTS_S.items()}
        return {**self._options, "config_kwargs": {**given, **timeouts, "retries": {"total_max_attempts": 1}}}

    def session(self) -> Session:
        """The source of credentials; not to be carried across a fork."""
        try:
            core = botocore.session.get_session()
            core.register_component("data_loader", _loader())
            core.register_component("response_parser_factory", ReplyParsers())
            core.set_config_variable("csm_enabled", False)  # would send a report of each request to a port
            return Session(
                botocore_session=core,
                aws_access_key_id=self._options.get("key"),
                aws_secret_access_key=self._options.get("secret"),
                aws_session_token=self._options.get("token"),
                profile_name=self._options.get("profile"),
            )
        except BotoCoreError as error:
            raise _no_client(error) from error

    def single_attempt_client(self, session: Session) -> Any:
        """For create-if-absent: a client that retries would take its own first attempt for a rival (P1)."""
        timeouts = {"connect_timeout": _CONNECT_TIMEOUT_S, "read_timeout": _CREATE_READ_TIMEOUT_S}
        return self._client(session, timeouts, {"retries": {"total_max_attempts": 1}})

    def bulk_client(self, session: Session) -> Any:
        retries = {"mode": "standard", "total_max_attempts": 5}
        timeouts = {"connect_timeout": _CONNECT_TIMEOUT_S, "read_timeout": _BULK_READ_TIMEOUT_S}
        return self._client(session, {"retries": retries, **timeouts}, {})

    def _client(self, session: Session, defaults: dict[str, Any], forced: dict[str, Any]) -> Any:
        # "auto" (AWS_DEFAULTS_MODE) would ask the machine's metadata service for the region.
        settings = {"max_pool_connections": _CONNECTIONS_MAX, "defaults_mode": "legacy", **defaults}
        settings |= _mapping(self._options, "config_kwargs")
        if self._options.get("anon"):
            settings["signature_version"] = UNSIGNED
        client = _mapping(self._options, "client_kwargs")
        if "endpoint_url" in self._options:
            client["endpoint_url"] = self._options["endpoint_url"]
        try:
            return session.client("s3", config=Config(**{**settings, **forced}), **client)
        except (BotoCoreError, TypeError, ValueError) as error:
            raise _no_client(error) from error


def _no_client(error: Exception) -> InvalidRequest:
    return InvalidRequest(f"no S3 client can be made from these storage options and this environment: {error}")


@cache
def _loader() -> Any:
    """botocore's description of S3: loading it takes 0.2 s, and all clients can share it."""
    return botocore.session.get_session().get_component("data_loader")


def _mapping(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = options.get(name) or {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"storage option {name} must be a mapping of names to values")
    return dict(value)


def _refuse_unknown(kind: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(set(map(str, given)) - known)
    if unknown:
        raise InvalidRequest(f"unknown {kind} {', '.join(unknown)}; known are {', '.join(sorted(known))}")
