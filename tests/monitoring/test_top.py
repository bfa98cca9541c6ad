"""The picture of `lockkeeper top` in the pages is drawn from a real run."""
from __future__ import annotations

import re
import sys
import xml.etree.ElementTree

from conftest import BUILD, ROOT, run


def test_its_picture_is_drawn(pictures):
    """By the script that drew docs/top.svg: both show what the page is about."""
    file = pictures / "top.svg"
    done = run(sys.executable, ROOT / "scripts" / "top_picture.py", BUILD, file)
    assert done.returncode == 0, done.stderr
    for path in (file, ROOT / "docs" / "top.svg"):
        lines = ["".join(line.itertext()) for line in xml.etree.ElementTree.parse(path).iter()
                 if line.tag.endswith("text")]
        assert any(re.match("NAME +TYPE +HOLDS +TTL_S", line) for line in lines)
        assert any(re.match(r"backup +fair lock +1 .* 2 +\d+\.\d ", line) for line in lines)
        assert lines[-1].startswith("waiting: 1 dump, ")
