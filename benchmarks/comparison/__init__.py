"""modelhost and llama.cpp measured side by side: what ``vs_llama_cpp.py`` is made of."""
