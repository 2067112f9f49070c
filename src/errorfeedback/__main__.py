"""`python -m errorfeedback`."""

from errorfeedback.cli.app import main

if __name__ == "__main__":
    main()
