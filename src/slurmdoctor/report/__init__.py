"""One module a format; `words` holds what they say alike."""
