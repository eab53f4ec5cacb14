"""Every option once: its name, default, spelling, help and values; how it is read, and what ran."""
