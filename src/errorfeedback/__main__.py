"""`python -m errorfeedback`, and the command `errorfeedback`."""

from errorfeedback.cli import interrupted


def main() -> None:
    """The entry point."""
    try:
        from errorfeedback.cli.app import app  # noqa: PLC0415  (Ctrl-C may come while it is imported)

        app()()
    except KeyboardInterrupt:
        interrupted()


if __name__ == "__main__":
    main()
