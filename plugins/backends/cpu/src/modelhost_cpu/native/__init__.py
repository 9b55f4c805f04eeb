"""What makes kernels run: compilation to objects that are kept on disk, and the pool of threads that steps run on."""
