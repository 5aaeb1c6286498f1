"""natmix beside nutpie's NUTS on posteriors of posteriordb, with the same compiled programs."""
