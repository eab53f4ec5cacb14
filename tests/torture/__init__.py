"""Random runs against servers, machines and signals that misbehave, each checked against the server's own log.

    python -m tests.torture --runs 10000 --seed 1 --jobs 4      many runs
    python -m tests.torture --seed 1 --only 4711                one of them again, with its output

A **case** (case.py) is drawn from a seed and a number: a kind of server, options, faults, and troubles of the
machine. The **fault server** (server.py) plays faults and logs every complete request it has received, with the
outcomes the client may report for it (log.py). The **oracle** (oracle.py) compares that log with the result.
"""
