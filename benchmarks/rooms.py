"""What the backends cost, by the name that this had: ``backends.py`` measures it."""

from backends import main

if __name__ == "__main__":
    main()
