"""The flat graph that a model is traced into, its ops, its passes and its memory plan."""
