"""One model over HTTP, without pages: pictures in, answers as JSON."""
