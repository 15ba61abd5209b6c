"""The decision service: HTTP over a durable log. Needs the extra `linmed[serve]`."""
