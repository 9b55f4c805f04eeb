"""The command line: ``modelhost COMMAND``. Each command is one module, imported when it is used."""
