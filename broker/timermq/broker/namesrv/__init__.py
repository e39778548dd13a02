"""The name server's role: routes, brokers that register here, and registering elsewhere."""
