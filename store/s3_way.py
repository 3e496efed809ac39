"""What another process needs to reach the same S3, whatever decided this one's: an option, a variable, a profile.

A worker has its own variables and configuration. Where they say where requests go, they must lose against what the
driver really uses; otherwise a worker with the same keys writes to another store, possibly Amazon's.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["way_to"]

# Each of these changes the host that a request goes to. If a client does not set one, the worker must not either.
_HOST_SETTINGS: Mapping[str, Any] = {
    "addressing_style": "auto",
    "us_east_1_regional_endpoint": "legacy",
    "use_accelerate_endpoint": False,
    "use_arn_region": True,
    "use_dualstack_endpoint": False,
}


def way_to(public: Mapping[str, Any], client: Any, default_endpoint_url: str) -> dict[str, Any]:
    """The options `public`, with everything that decides where `client` sends its requests made explicit.

    `default_endpoint_url`: where it would send them if no variable and no profile named an endpoint. That endpoint is
    not pinned: there boto3 addresses buckets by their own hosts, and follows them into their region.
    """
    config = client.meta.config
    kwargs = dict(public.get("client_kwargs") or {})
    given = public.get("endpoint_url") or kwargs.pop("endpoint_url", None)
    kwargs["region_name"] = client.meta.region_name
    if given or client.meta.endpoint_url != default_endpoint_url:
        kwargs["endpoint_url"] = client.meta.endpoint_url
    settings = {
        **(public.get("config_kwargs") or {}),
        "ignore_configured_endpoint_urls": True,
        "use_dualstack_endpoint": bool(config.use_dualstack_endpoint),
        "use_fips_endpoint": bool(config.use_fips_endpoint),
        "s3": {**_HOST_SETTINGS, **(config.s3 or {})},
    }
    rest = {name: value for name, value in public.items() if name != "endpoint_url"}
    return {**rest, "client_kwargs": kwargs, "config_kwargs": settings}
