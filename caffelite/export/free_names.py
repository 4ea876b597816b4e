"""Names that nothing has yet."""


def free_name(name: str, taken: set[str]) -> str:
    """The name, or with the first number from 2 on by which it is not taken; it is taken then."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free)
    return free
