"""Incremental parsers of generated text: a few engines from which tool-call and reasoning formats are declared.

Plugins import them from :mod:`modelhost.api.parsing`.
"""
