"""How experiments run: options, parts that can be stopped, processes, folders."""
