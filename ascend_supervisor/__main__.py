"""``ascend-supervisor``, also as ``python -m ascend_supervisor``."""

from ascend_supervisor.imports import SUPERVISOR, begin


def main() -> None:
    """Run the program; nothing else is imported before it is settled from where."""
    begin(SUPERVISOR)
    from ascend_supervisor.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
