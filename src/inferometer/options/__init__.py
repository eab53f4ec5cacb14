"""The table of all options (name, default, spelling, help, values), its parsers, and effective settings."""
