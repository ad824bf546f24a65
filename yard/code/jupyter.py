"""What a notebook requires: Jupyter Lab, in fixed versions, and what its project asks for."""

from pathlib import Path

from yard.code.requirements import Requirements

# Below the checkout: what is asked for, and the versions that it came to, with hashes (make lock).
FOLDER = Path("docker/notebook")
ASKED, SETTLED = "requirements.in", "requirements.txt"
# What names both lists, the project's own and that one, for uv, which is told of one file
BOTH = "notebook.in"


def notebook_requirements(root: Path, own: Requirements | None) -> tuple[Requirements, str | None]:
    """Put what a notebook requires together.

    Args:
        own: what the project requires; None where that is nothing.

    Returns:
        That, and the versions where they are known: a project without requirements gets those that
        the checkout fixes. None where they have to fit what the project requires.
    """
    asked = (root / FOLDER / ASKED).read_text(encoding="utf-8")
    if own is None:
        path = str(FOLDER / ASKED)
        settled = (root / FOLDER / SETTLED).read_text(encoding="utf-8")
        return Requirements(path, root, (), {path: asked}), settled
    if own.packages:
        lines = [line.partition("#")[0].strip() for line in asked.splitlines()]
        packages = (*own.packages, *filter(None, lines))
        texts = {**own.texts, ASKED: asked}
        return Requirements(own.path, own.folder, packages, texts), None
    asked_path = str(FOLDER / ASKED)
    both = f"-r {asked_path}\n-r {own.path}\n"
    texts = {BOTH: both, asked_path: asked, **own.texts}
    return Requirements(BOTH, own.folder, (), texts), None
