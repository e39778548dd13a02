"""Bulk scheduling: the rows of any DataFrame into a live broker, each exactly once.

    (df.write.format("timermq.schedule").mode("append")
       .option("broker", "127.0.0.1:10911").option("job", "campaign-7").save())

Tasks stage blocks at the broker, the commit hands all of them over in one step, and the broker
adopts them (``timermq.remoting.bulk``). What else a job leaves behind, refused rows and messages
of the far future, is published by the one attempt whose parts were taken.
"""

from .job_report import JobReport as JobReport
from .job_report import job_report as job_report
from .schedule_sink import ScheduleSink as ScheduleSink
from .sink_options import SinkOptions as SinkOptions
