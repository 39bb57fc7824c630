"""What a page of the report loads and shows, and that it asks nothing of the network."""

import base64
import io
import re
from html.parser import HTMLParser

from PIL import Image


def size(address) -> tuple[int, int]:
    with Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as opened:
        opened.load()
        return opened.size


class Page(HTMLParser):
    """What a page would load, where it leads, and the names it has."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.names, self.images, self.tags = [], [], set(), [], set()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.add(tag)
        self.names.add(given.get("id"))
        self.loaded += [
            given[name]
            for name in ("src", "srcset", "data", "poster", "background")
            if name in given
        ]
        if "href" in given:
            (self.links if tag == "a" else self.loaded).append(given["href"])
        if tag == "img":
            self.images.append(given)


def assert_offline(path):
    """Fail when a page would ask the network for anything, or leads where nothing is."""
    shown = Page(path)
    assert all(address.startswith("data:") for address in shown.loaded), [
        a[:60] for a in shown.loaded if a[:5] != "data:"
    ]
    assert "iframe" not in shown.tags and "fetch(" not in shown.text and "XMLHttp" not in shown.text
    styles = "".join(re.findall(r"<style>(.*?)</style>", shown.text, re.S))
    assert "@import" not in styles and "url(" not in styles
    for link in shown.links:
        if link.startswith("#"):
            assert link[1:] in shown.names, link
        elif not re.match(r"https?://", link):
            assert (path.parent / link.partition("#")[0]).exists(), (path.name, link)
    for image in shown.images:
        assert image["alt"].strip() and "No description" not in image["alt"]
        kind, _, content = image["src"].partition(",")
        if "svg" in kind:
            assert b"</svg>" in base64.b64decode(content)
            continue
        assert min(size(image["src"])) > 1
    return shown
