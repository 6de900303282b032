"""Which addresses the server may call: the public internet, and what an operator has allowed."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_ALSO_DENIED = (
    ip_network("168.63.129.16/32"),
    ip_network("100.64.0.0/10"),
    ip_network("192.88.99.0/24"),
    ip_network("fec0::/10"),
)
"""Internal although they may look global: a cloud's metadata service, carrier-grade NAT, relays, old site-local."""


class ForbiddenTarget(Exception):
    """The server does not call this address."""


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks in CIDR notation, or single addresses. Raises ``ValueError``."""
    return tuple(ip_network(text.strip()) for text in texts)


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether an operator has named the address; an IPv4 address inside an IPv6 one counts as that."""
    real = _embedded(address) or address
    return any(candidate in network for network in allowed for candidate in (address, real))


def may_call(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether the server may connect: loopback, link-local, private, reserved and multicast ranges are denied."""
    if is_allowed(address, allowed):
        return True
    real = _embedded(address) or address
    if isinstance(address, IPv6Address) and any(address in network for network in _NAT64):
        return False
    return real.is_global and not real.is_multicast and not any(real in network for network in _ALSO_DENIED)


def _embedded(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def check_url(url: str, allowed: Sequence[Network]) -> None:
    """Refuse what must not be called whatever its name resolves to. Raises :class:`ForbiddenTarget`.

    Allowed are https URLs without credentials. Plain http is for addresses that an operator has named, given as such.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as wrong:
        raise ForbiddenTarget("The URL cannot be read.") from wrong
    if not host or port == 0 or parts.username is not None or parts.password is not None:
        raise ForbiddenTarget("The URL names no host, or carries credentials.")
    address = literal(host)
    if address is not None and not may_call(address, allowed):
        raise ForbiddenTarget(f"{host} is an internal address.")
    if parts.scheme == "https":
        return
    if parts.scheme != "http" or address is None or not is_allowed(address, allowed):
        raise ForbiddenTarget("Only https URLs are called, and http URLs of addresses on the allow list.")


def literal(host: str) -> Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
