"""CPU kernel backend for modelhost: kernels compiled at run time by LLVM."""
