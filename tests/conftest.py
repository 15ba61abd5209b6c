"""What holds for all tests."""

import signal

# A shell without job control starts what it puts into the background with Ctrl-C ignored, and children
# inherit that: the tests that interrupt a process would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
