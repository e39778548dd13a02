"""Files that hold messages: commit log, consume queues, key index, checkpoint, and the disk.

The whole is ``timermq.timerstore.message_store.MessageStore``. Nothing is imported here: whoever
wants a name's rule or an error does not want numpy.
"""
