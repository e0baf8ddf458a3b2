"""The parts of the HTML page, a module each; all markup passes `tags`, and nothing of a log becomes markup."""
