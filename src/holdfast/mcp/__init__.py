"""The tools of Holdfast for agents, over the Model Context Protocol. Needs `pip install holdfast[mcp]`."""
