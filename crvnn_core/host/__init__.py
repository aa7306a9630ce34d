"""The plug-in host: slots, components, hooks, the manager and the catalog."""
