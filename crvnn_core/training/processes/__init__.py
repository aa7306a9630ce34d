"""The processes of one training: devices and threads, what they share, and what happens when one is lost."""
