"""The dashboard: pages for people who want to look instead of read."""
