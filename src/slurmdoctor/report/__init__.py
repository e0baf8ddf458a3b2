"""Diagnosis → text, JSON, Markdown, Slack: a module a format; `words`, `exits` and `quantities` hold what they share."""
