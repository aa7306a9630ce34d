"""The contract of each slot, a module a slot and a function a promise."""
