"""Waiting for something to become true, with the reason in the failure."""

import time


class Timeout(AssertionError):
    pass


def eventually(check, why, *, within=120, every=0.1):
    """Calls check until it returns something true, and returns that. An AssertionError in it counts as "not yet".

    The usual limit only ends a wait for what never comes: pauses between retries and a busy machine stay far below it.
    """
    limit = time.monotonic() + within
    while True:
        said = ""
        try:
            if value := check():
                return value
        except AssertionError as e:
            said = f": {e}"
        if time.monotonic() >= limit:
            raise Timeout(f"after {within} s still not: {why}{said}")
        time.sleep(every)


def always(check, seconds, why, every=0.1):
    """Fails as soon as check returns something false within the given time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        assert check(), f"did not stay true for {seconds} s: {why}"
        time.sleep(every)
