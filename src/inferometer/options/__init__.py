"""Every option, defined once: name, default, spelling, help and values; parsing, and the options in effect."""
