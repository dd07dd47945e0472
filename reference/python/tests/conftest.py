"""Gives the tests the same world wherever they are started."""

from __future__ import annotations

import signal

from hypothesis import settings

# What is started in the background of a script inherits an ignored SIGINT, and with it everything that it starts;
# Ctrl-C is part of what is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes says how busy the machine is; what speed has to be is for `make bench`.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")
