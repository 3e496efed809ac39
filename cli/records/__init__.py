"""Records from and to files, objects and pipes: sources, formats, exports, imports that resume where they stopped."""
