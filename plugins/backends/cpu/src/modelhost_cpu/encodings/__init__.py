"""How encoded matrices lie in memory for the kernels: sixteen rows interleaved, still encoded."""
