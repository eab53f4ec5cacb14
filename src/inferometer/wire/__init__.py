"""Sans-IO codecs: bytes in, events out; no sockets, no clock."""
