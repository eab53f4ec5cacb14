"""The load generator: plan (when to send), engine (the event loop), links (sockets), workers (processes)."""
