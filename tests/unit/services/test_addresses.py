"""What the server may call (control-plane §17: HTTP targets)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from dw_core.services.addresses import ForbiddenTarget, check_url, may_call, read_networks


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "64:ff9b::a9fe:a9fe",
    ],
)
def test_internal_addresses_are_denied(address: str) -> None:
    assert not may_call(ip_address(address), ())


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1", "::ffff:93.184.215.14"])
def test_public_addresses_are_called(address: str) -> None:
    assert may_call(ip_address(address), ())


def test_an_operator_opens_networks_by_name() -> None:
    allowed = read_networks(["10.0.0.0/8", "::1"])
    assert may_call(ip_address("10.1.2.3"), allowed)
    assert may_call(ip_address("::ffff:10.1.2.3"), allowed)
    assert may_call(ip_address("::1"), allowed)
    assert not may_call(ip_address("192.168.1.1"), allowed)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "http://93.184.215.14/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[fe80::1%25eth0]/",
        "https://user:secret@example.com/",
        "https:///path",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://example.com:99999/",
        "not a url",
    ],
)
def test_urls_that_are_never_called(url: str) -> None:
    with pytest.raises(ForbiddenTarget):
        check_url(url, ())


def test_plain_http_is_for_allowed_addresses_only() -> None:
    allowed = read_networks(["127.0.0.1"])
    check_url("http://127.0.0.1:8080/work", allowed)
    check_url("https://example.com/work", allowed)
    with pytest.raises(ForbiddenTarget):
        check_url("http://localhost:8080/work", allowed)
