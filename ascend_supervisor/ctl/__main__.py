"""``ascend-supervisorctl``, also as ``python -m ascend_supervisor.ctl``."""

import sys

from ascend_supervisor.imports import CONTROL, begin, refuse


def main() -> None:
    """Run the program; nothing else is imported before it is settled from where."""
    begin(CONTROL)
    try:
        from ascend_supervisor.ctl.main import main as run  # noqa: PLC0415
    except Exception as error:  # noqa: BLE001  (whatever a package raises, it is not there)
        sys.exit(refuse(error, CONTROL))
    run()


if __name__ == "__main__":
    main()
