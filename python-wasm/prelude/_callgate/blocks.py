"""Content blocks of MCP: images, sounds and resources in the results of tools, made usable."""

from _callgate.texts import clean

_TYPES = ("text", "image", "audio", "resource", "resource_link")


class ContentBlock(dict):
    """A block of a result: the dict as it came, and `.bytes`, `.text`, `.mime_type`, `.uri`."""

    @property
    def bytes(self):
        """The data of an image, a sound or a resource."""
        import base64

        part = self._part()
        data = part.get("data") or part.get("blob")
        if data is None:
            return (self.text or "").encode()
        return base64.b64decode(data)

    @property
    def text(self):
        """The text of a text or of a resource; None where there is none."""
        return self._part().get("text")

    @property
    def mime_type(self):
        """Such as `image/png`; None where the tool does not say."""
        return self._part().get("mimeType")

    @property
    def uri(self):
        """Where a resource comes from."""
        return self._part().get("uri")

    def _part(self):
        resource = self.get("resource")
        return resource if isinstance(resource, dict) else self

    def __repr__(self):
        kind = self.get("type")
        if kind == "text":
            return dict.__repr__(self)
        details = [str(self.uri or ""), str(self.mime_type or ""), f"{len(self.bytes)} bytes" if kind != "resource_link" else ""]
        return clean(f"<{kind} {' '.join(filter(None, details))}>")


def usable(value):
    """The value of a call; if it is a list of content blocks, with each of them made usable."""
    if type(value) is list and value and all(map(_is_block, value)):
        return [ContentBlock(block) for block in value]
    return value


def _is_block(value):
    if type(value) is not dict or value.get("type") not in _TYPES:
        return False
    kind = value["type"]
    if kind in ("image", "audio"):
        return isinstance(value.get("data"), str) and isinstance(value.get("mimeType"), str)
    if kind == "resource":
        return isinstance(value.get("resource"), dict)
    return isinstance(value.get("text" if kind == "text" else "uri"), str)
