"""One judge call: request in, reply out."""
