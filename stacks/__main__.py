"""Every stack of the environment: what `pulumi up` runs."""

from pathlib import Path

from servingstack.project import deploy


def program() -> None:
    """Deploy what Pulumi.<env>.yaml says, as the lock file beside it holds it."""
    deploy(Path(__file__).parent)


if __name__ == "__main__":
    program()
