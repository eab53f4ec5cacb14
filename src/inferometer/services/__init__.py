"""Service kinds: requests, the meaning of replies, and control calls."""
