"""The classic delay levels of RocketMQ."""
