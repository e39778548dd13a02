"""Jobs on the tables of a store: functions that take and give frames."""
