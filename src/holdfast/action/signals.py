"""The signals of a cancelled job wait until there is someone to heed them."""

import signal

_CANCELLING = (signal.SIGINT, signal.SIGTERM)


def hold_signals() -> None:
    """Keep the signals of a cancelled job waiting, also if the program was started to ignore them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _CANCELLING)
    for number in _CANCELLING:
        signal.signal(number, signal.SIG_DFL)


def release_signals() -> None:
    """Let them in, those that wait first."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CANCELLING)
