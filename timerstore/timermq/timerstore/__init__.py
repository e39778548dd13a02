"""Files that hold messages: commit log, consume queues, key index, checkpoint, and the disk.

The whole is ``timermq.timerstore.message_store.MessageStore``. Nothing is imported here: the
rules of names and the errors are used where numpy is not needed.
"""
