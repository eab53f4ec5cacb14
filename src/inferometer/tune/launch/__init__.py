"""Where the models run while they are tuned: a server of our own, somebody else's, or one in a container."""
