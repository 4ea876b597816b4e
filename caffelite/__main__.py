"""``python -m caffelite`` is the command ``caffelite``."""

if __name__ == "__main__":
    import contextlib

    from .errors import CaffeliteError
    from .user_modules import leave_current_folder

    with contextlib.suppress(CaffeliteError):  # the command reports it
        leave_current_folder()  # before anything is imported by a name that a file there may have
    from .cli import main

    main()
