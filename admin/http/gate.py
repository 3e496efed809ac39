"""Whoever comes in: the Host and Origin, the token and its role, and the headers of every answer (docs/rfcs/0018)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lithify.admin.http.access import Door, Guesses, Known, Role, Tokens
from lithify.admin.http.problems import Problem, refusal

__all__ = ["HEADERS", "LOCAL", "Entered", "Gate"]

LOCAL = Known(Role.ADMIN, "local")  # whoever asks over loopback, where no tokens are configured

HEADERS: dict[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Entered(NamedTuple):
    """Who may go on, or why not."""

    known: Known | None = None
    problem: Problem | None = None
    headers: Mapping[str, str] = {}
    wait_ms: int = 0  # before the problem is told


_GIVE_TOKEN = (
    "give a token: the header 'Authorization: Bearer TOKEN', or of the command line and Python the variable "
    "LITHIFY_HTTP_TOKEN"
)


class Gate:
    """`tokens`: those in force now; None: none are configured, and whoever reaches the address may do everything."""

    def __init__(self, door: Door, tokens: Callable[[], Tokens] | None) -> None:
        self._door = door
        self._tokens = tokens
        self._guesses = Guesses()

    def foreign(self, headers: Mapping[str, str]) -> Problem | None:
        """Why a request does not come from where ours come from; None: it does."""
        host = headers.get("host")
        if not self._door.admits_host(host):
            return refusal(
                421, "Misdirected", "this server does not answer to that Host; --http-host adds a name to its own"
            )
        ours = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if not ours or not self._door.admits_origin(headers.get("origin"), host):
            return refusal(403, "Forbidden", "a page of another origin may not ask this server")
        return None

    def enter(self, headers: Mapping[str, str], sender: str, role: Role) -> Entered:
        """`role`: what the request takes."""
        if self._tokens is None:
            return Entered(LOCAL)
        token = _token_of(headers)
        if not token:
            problem = refusal(401, "Unauthorized", _GIVE_TOKEN)
            return Entered(problem=problem, headers={"WWW-Authenticate": "Bearer"})
        known = self._tokens().find(token)
        if known is None:
            wait_ms = self._guesses.wrong(sender)
            problem = refusal(401, "Unauthorized", "this token is not among those in force")
            told = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            return Entered(problem=problem, headers=told, wait_ms=wait_ms)
        self._guesses.right(sender)
        if known.role < role:
            detail = f"this takes the role {role.word}; the token has {known.role.word}"
            return Entered(known, refusal(403, "Forbidden", detail))
        return Entered(known)

    def admits(self, headers: Mapping[str, str], role: Role) -> bool:
        """Whether what `enter` let in would be let in now: a stream may outlive its token."""
        known = LOCAL if self._tokens is None else self._tokens().find(_token_of(headers))
        return known is not None and known.role >= role


def _token_of(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def pause(wait_ms: int) -> None:
    await asyncio.sleep(wait_ms / 1000)
