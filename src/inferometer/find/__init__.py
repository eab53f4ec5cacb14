"""Find the highest load that meets an SLO."""
