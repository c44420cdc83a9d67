"""``python -m ascend_supervisor``."""

from ascend_supervisor.cli import main

if __name__ == "__main__":
    main()
