"""The formats that a checkpoint describes itself."""

from __future__ import annotations

from .parser import TemplateFormat

response_template = TemplateFormat()
"""What `response_template` in tokenizer_config.json says; finds reasoning as well"""

response_template_reasoning = TemplateFormat(reads_calls=False)
"""What `response_template` in tokenizer_config.json says; calls are text"""
