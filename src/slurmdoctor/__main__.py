"""`slurmdoctor`, and `python -m slurmdoctor`."""

import gc


def main() -> None:
    """Run the program. What is made at its start stays: to look through it for garbage takes a twentieth of a paste's time."""
    gc.set_threshold(200_000, 20, 20)
    from slurmdoctor.cli import main as run

    run()


if __name__ == "__main__":
    main()
