"""The server: name server and broker in one process, on trio.

It is ``timermq.broker.broker.Broker``. Nothing is imported here: the command line takes single
modules from this package, and all of it takes half a second.
"""
