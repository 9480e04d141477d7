"""The pages that show how to write a plugin, executed line by line."""

import re

import pytest

from support.paths import ROOT

pytestmark = pytest.mark.slow

FEWER = " --replicates 3"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "fewest", "names"),
    [("write-an-estimator", 8, ("MyIPW", "my-ipw")), ("write-an-environment", 7, ("my-bandit",))],
)
def test_every_command_of_the_page_works(shell, page, fewest, names):
    """A Python block that begins with `# NAME.py` is that file; lines of an sh block are run.

    Runs have fewer data sets than on the page: 100 of them take half a minute.
    """
    text = (ROOT / "bench" / "docs" / f"{page}.md").read_text(encoding="utf-8")
    ran = 0
    for language, body in BLOCK.findall(text):
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", body)
            assert name, f"a block without a file name: {body[:60]}"
            (shell.folder / name[1]).write_text(body, encoding="utf-8")
        elif language == "sh":
            for line in body.strip().splitlines():
                command = line.partition("  #")[0]
                printed = shell(command + FEWER * command.startswith("ope-bench run"))
                ran += 1
    assert ran >= fewest
    # The last command is about the plugin.
    assert any(name in printed for name in names)
