"""`python -m whyrank` is `whyrank`."""

from whyrank.cli import main

if __name__ == "__main__":
    main()
