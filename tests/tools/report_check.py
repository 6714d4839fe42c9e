"""What a page or a picture must obey, read off its text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

VOID = {"meta", "br", "link", "img"}


class _Balance(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.wrong += [f"{tag} {k}={v}" for k, v in attrs if k in ("src", "href") or k.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()


def charts(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.S)]


def sound(page: str) -> None:
    """Balanced tags, nothing fetched or run, light and dark."""
    parser = _Balance()
    parser.feed(page)
    assert parser.open == []
    assert parser.wrong == []
    assert not parser.tags & {"script", "link", "img", "iframe"}
    assert "prefers-color-scheme:dark" in page
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)


def boxes(svg: ElementTree.Element) -> list[tuple[str, float, float, float, float]]:
    """Text, left, top, right, bottom of what is not turned, by the width of a usual letter."""
    found = []
    for e in svg.iter():
        if e.tag.rpartition("}")[2] != "text" or "x" not in e.attrib:
            continue
        width = len(e.text) * 6.0
        x, y = float(e.get("x")), float(e.get("y"))
        left = {"start": x, "middle": x - width / 2, "end": x - width}[e.get("text-anchor")]
        found.append((e.text, left, y - 9, left + width, y + 2))
    return found


def overlaps(svg: ElementTree.Element) -> list[tuple[str, str]]:
    all_boxes = boxes(svg)
    return [
        (a[0], b[0])
        for i, a in enumerate(all_boxes)
        for b in all_boxes[i + 1 :]
        if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]
    ]


def axis_names(svg: ElementTree.Element) -> list[str]:
    names = [e.text for e in svg.iter() if e.get("class") == "axis"]
    return [n for n in names if not n.startswith(("limit", "store"))]
