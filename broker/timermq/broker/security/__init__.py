"""Who may come in, and do what: signed requests, rights by topic and group, TLS."""
