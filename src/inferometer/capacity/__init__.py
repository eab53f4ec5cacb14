"""Plan how many replicas given traffic needs to meet an SLO, from saved results."""
