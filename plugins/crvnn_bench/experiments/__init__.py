"""Experiments that combine measurements, one per module, each called by the command of the same name in ``commands``.

The commands ``memory`` and ``profile`` take one measurement per contender, so they call ``measurement`` directly.
"""
