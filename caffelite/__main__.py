"""``python -m caffelite`` is the command ``caffelite``."""

from .cli import main

if __name__ == "__main__":
    main()
