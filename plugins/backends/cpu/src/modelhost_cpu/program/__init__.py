"""A graph as a list of kernel calls: what each call reads and writes, and where that lies in memory."""
