"""A checkpoint saver for LangGraph: a thread is a run, and every step of a graph a checkpoint of it.

Needs the extra `langgraph`.
"""

from holdfast.langgraph.saver import HoldfastSaver

__all__ = ["HoldfastSaver"]
