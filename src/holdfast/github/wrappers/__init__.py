"""Gateways around gateways, each with one rule; `assembly` has them in their order."""
