"""Transactions: messages that consumers see when their producer has committed them."""
