import signal
import threading


class Stop:

    """
    The first SIGTERM or SIGINT becomes a request to stop, which a loop asks
    for at a good moment. A second one acts as if this were not here, and so
    does every signal that was ignored before.
    """

    def __init__(self, enabled=True):
        self.signum = None
        self.handlers = {}
        if enabled and threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGTERM, signal.SIGINT):
                before = signal.getsignal(signum)
                if before not in (signal.SIG_IGN, None):
                    self.handlers[signum] = before
                    signal.signal(signum, self._request)

    @property
    def requested(self):
        return self.signum is not None

    def finish(self):
        """
        Give the signals back, and end the process if one of them asked for it.
        """
        self._restore()
        if self.signum == signal.SIGINT:
            raise KeyboardInterrupt
        if self.requested:
            raise SystemExit(128 + self.signum)

    def _request(self, signum, frame):
        self.signum = signum
        self._restore()

    def _restore(self):
        for signum, handler in self.handlers.items():
            signal.signal(signum, handler)
