"""The web pages of `caffelite serve`: they read run folders and call the functions that the commands call."""
