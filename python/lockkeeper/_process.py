"""Which process this is.

After fork() every handle of the library belongs to the parent. The child sees that `number` has
changed, and makes handles of its own when it first needs them.
"""
from __future__ import annotations

import os
import threading

number = 0
main_thread = threading.main_thread().ident
making = threading.RLock()  # handles, again after a fork


def _forked() -> None:
    global number, main_thread, making
    number += 1
    main_thread = threading.main_thread().ident
    making = threading.RLock()


os.register_at_fork(after_in_child=_forked)
