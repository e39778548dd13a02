"""Security: signed requests, rights by topic and group, TLS."""
