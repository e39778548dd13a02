"""The timer service: admission, the five stages, recovery.

It is ``timermq.pipeline.timer_message_store.TimerMessageStore``. Nothing is imported here: code
that wants a setting or a name does not want the service.
"""
