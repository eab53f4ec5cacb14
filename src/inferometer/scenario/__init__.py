"""Scenarios: classes of traffic in phases, visits, tasks of agents, and the rules of MLPerf."""
