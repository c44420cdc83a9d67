"""The settings of one run: options, their sources, and which source wins; pure."""
