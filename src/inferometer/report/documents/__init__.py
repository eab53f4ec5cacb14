"""Documents of the answers: one file per kind, and one per shared part."""
