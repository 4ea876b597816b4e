"""The pages, a module each: `ROUTES` and the functions that answer them."""
