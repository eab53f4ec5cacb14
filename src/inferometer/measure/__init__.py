"""One level and the sweep over levels: the imperative shell around load and stats."""
