"""The played vendors over HTTP/2, with the h2 package's state machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.vendors.plays import Play, Request

if TYPE_CHECKING:
    from tests.vendors.server import Played


@dataclass
class _Stream:
    """One exchange of a connection; also its `Line`."""

    door: HTTP2
    number: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    request: Request | None = None
    task: asyncio.Task[None] | None = None
    unsent: bytearray = field(default_factory=bytearray)
    is_over: bool = False

    def begin(self, play: Play) -> None:
        # HTTP/2 forbids the headers that speak of the connection
        told = [(name.lower(), value) for name, value in play.headers.items() if name.lower() != "connection"]
        self.door.state.send_headers(self.number, [(":status", str(play.status)), *told])
        self.door.flush()

    def write(self, data: bytes) -> None:
        self.unsent += data
        self.door.push(self)

    def end(self) -> None:
        self.is_over = True
        self.door.push(self)

    def raw(self, data: bytes) -> None:
        self.door.transport.write(data)

    def break_off(self, reset: bool) -> None:
        if reset:
            self.door.transport.abort()
        else:
            self.door.transport.close()


class HTTP2(asyncio.Protocol):
    """One connection with many streams."""

    transport: asyncio.Transport

    def __init__(self, played: Played) -> None:
        self.played = played
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.streams: dict[int, _Stream] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.played.opened(transport)
        self.state.initiate_connection()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.played.closed(self.transport)
        for stream in self.streams.values():
            self._leave(stream)

    def data_received(self, data: bytes) -> None:
        try:
            events = self.state.receive_data(data)
        except h2.exceptions.ProtocolError:
            self.flush()
            self.transport.close()
            return
        for event in events:
            match event:
                case h2.events.RequestReceived():
                    number = event.stream_id
                    told = {bytes(name).decode(): bytes(value).decode() for name, value in event.headers}
                    self.streams[number] = _Stream(self, number, told)
                case h2.events.DataReceived():
                    self.streams[event.stream_id].body += event.data
                    self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    self._asked(self.streams[event.stream_id])
                case h2.events.StreamReset():
                    if (stream := self.streams.pop(event.stream_id, None)) is not None:
                        self._leave(stream)
                case h2.events.WindowUpdated():
                    for stream in tuple(self.streams.values()):
                        self.push(stream)
                case _:
                    pass
        self.flush()

    def _asked(self, stream: _Stream) -> None:
        told = stream.headers
        head = "\r\n".join(f"{name}: {value}" for name, value in told.items() if not name.startswith(":"))
        stream.request, play = self.played.arrived(
            told[":method"], told[":path"], head.encode(), bytes(stream.body), "HTTP/2"
        )
        stream.task = self.played.perform(stream, play, stream.request)

    def _leave(self, stream: _Stream) -> None:
        if stream.task is not None and not stream.task.done() and stream.request is not None:
            stream.task.cancel()
            self.played.gone(stream.request)

    def push(self, stream: _Stream) -> None:
        """Send what the client has room for."""
        while stream.unsent:
            room = min(
                self.state.local_flow_control_window(stream.number),
                self.state.max_outbound_frame_size,
                len(stream.unsent),
            )
            if room <= 0:
                break
            self.state.send_data(stream.number, bytes(stream.unsent[:room]))
            del stream.unsent[:room]
        if stream.is_over and not stream.unsent and self.streams.pop(stream.number, None) is not None:
            self.state.end_stream(stream.number)
        self.flush()

    def flush(self) -> None:
        if not self.transport.is_closing() and (data := self.state.data_to_send()):
            self.transport.write(data)
