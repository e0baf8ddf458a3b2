"""What `redact` masks: kinds of secrets, assigned values, and names behind which people and hosts stand."""
