"""Opening the port of a role."""

from __future__ import annotations

import errno
import socket

from dw_runtime.process.codes import StartupError

BACKLOG = 4096


def open_listener(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Bind ``host:port`` (0 picks a free port), ready for an event loop to listen on.

    With ``is_shared`` several processes may bind the port and the kernel spreads connections over them.
    Raises :class:`StartupError` naming the address.
    """
    return _bind(host, port, is_shared)


def reserve_port(host: str, port: int) -> socket.socket:
    """Hold ``host:port`` for the processes that will share it; refuse a port that somebody else listens on.

    The socket returned never listens. Raises :class:`StartupError` naming the address.
    """
    if port:
        _bind(host, port, is_shared=False).close()
    return _bind(host, port, is_shared=True)


def bound_port(listener: socket.socket) -> int:
    """The port a listener got."""
    port: int = listener.getsockname()[1]
    return port


def _bind(host: str, port: int, is_shared: bool) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise StartupError(f"The address {host} cannot be resolved; name another one with --host.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it; without it a response in two writes waits 40 ms for the client's ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        if not is_shared:
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StartupError(_refusal(host, port, error)) from None
    listener.setblocking(False)
    return listener


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is already in use; choose another one with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} may not be opened by this user; choose one above 1023 with --port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"The address {host} does not belong to this machine; name another one with --host."
    return f"Port {port} on {host} cannot be opened: {error.strerror}."
