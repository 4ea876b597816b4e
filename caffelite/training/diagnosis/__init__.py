"""Finds the cause of a loss that is NaN or infinite, and runs its iteration again."""
