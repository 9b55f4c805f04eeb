"""The kernel language: a thin layer over ``llvmlite.ir`` in which a kernel reads like its formula."""
