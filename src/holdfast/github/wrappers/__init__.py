"""Gateways around gateways, each with one rule."""
