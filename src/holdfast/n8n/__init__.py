"""The n8n workflows that come with Holdfast."""
