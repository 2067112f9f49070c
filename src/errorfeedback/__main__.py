"""`python -m errorfeedback`, and the command `errorfeedback`."""

from __future__ import annotations

import signal
from types import FrameType

from errorfeedback.cli import interrupted


def main() -> None:
    """The entry point."""
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, press)
    try:
        from errorfeedback.cli.app import app  # noqa: PLC0415  (Ctrl-C may come while it is imported)

        app()()
    except KeyboardInterrupt:
        interrupted()
    except Exception:
        if pressed:  # a library that was interrupted, like numba's compiler, may make another error of it
            interrupted()
        raise


if __name__ == "__main__":
    main()
