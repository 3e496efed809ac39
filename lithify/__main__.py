"""`python -m lithify`, as `lithify`."""

from lithify.cli.main import main

if __name__ == "__main__":
    main()
