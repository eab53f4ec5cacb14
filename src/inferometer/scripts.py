"""Entry points of the installed scripts.

Importing a command takes a moment, in which Ctrl-C would print a traceback from inside the import system. Until the
command handles signals itself, Ctrl-C ends the process, as it does any other program.
"""

import signal


def inferometer() -> int:
    _end_at_interrupt()
    from inferometer.cli.main import main

    return main()


def perf_analyzer() -> int:
    _end_at_interrupt()
    from inferometer.dialects.perf_analyzer.main import main

    return main()


def model_analyzer() -> int:
    _end_at_interrupt()
    from inferometer.dialects.model_analyzer.main import main

    return main()


def _end_at_interrupt() -> None:
    """Leave an ignored Ctrl-C ignored, as shells want it in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
