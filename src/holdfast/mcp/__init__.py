"""The tools of Holdfast for agents, over the Model Context Protocol. Needs the extra `mcp`."""
