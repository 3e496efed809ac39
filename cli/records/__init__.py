"""Records from and to files, objects and pipes: sources, formats, exports, and imports that resume."""
