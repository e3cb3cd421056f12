"""`mcp`: the MCP servers that the program may call, and their tools."""

from _callgate import host, names
from _callgate.errors import ToolCallError
from _callgate.texts import Listing, clean
from _callgate.tools import ToolFunction


class Servers(Listing):
    """The servers: `mcp.github.search_issues(query="x")`, `mcp["my server"]`, `print(mcp)`."""

    __slots__ = ("__servers", "__bound")

    def __init__(self, servers):
        self.__servers = servers
        self.__bound = names.bind(servers)

    def __getattr__(self, name):
        if name in self.__bound:
            return self.__bound[name]
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(_missing(name, self.__bound), name=name, obj=self)

    def __getitem__(self, name):
        for server in self.__servers:
            if server.__name__ == name:
                return server
        raise KeyError(_missing(name, [of.__name__ for of in self.__servers]))

    def __iter__(self):
        return iter(self.__servers)

    def __len__(self):
        return len(self.__servers)

    def __dir__(self):
        return set(self.__bound)

    def __repr__(self):
        names = ", ".join(of.__name__ for of in self.__servers)
        return f"<MCP servers: {clean(names)}>" if names else "<no MCP servers>"

    def __str__(self):
        _fetch(self.__servers)
        return "\n".join(map(str, self.__servers)) or repr(self)

    @property
    def __doc__(self):
        return f"The MCP servers.\n\n{self}"


class Server(Listing):
    """One server; its tools are its attributes. What it has is asked when it is first needed."""

    def __init__(self, name, offers=()):
        self.__name__ = name
        self._offers = list(offers)
        self._is_remote = not offers
        self._problem = None
        self._bound = None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        bound = self._tools()
        if name in bound:
            return bound[name]
        if self._problem:
            raise ToolCallError(name, self._problem, None)
        shown = ", ".join(list(bound)[:100]) + (" …" if len(bound) > 100 else "")
        raise AttributeError(f"the server {self.__name__!r} has no tool {name!r}; it has: {shown}", name=name, obj=self)

    def __getitem__(self, name):
        for function in self:
            if function.__name__ == name:
                return function
        raise KeyError(name)

    def __iter__(self):
        self._tools()
        return iter(self._functions)

    def __len__(self):
        self._tools()
        return len(self._functions)

    def __dir__(self):
        return set(self._tools())

    def __repr__(self):
        self._tools()
        if self._problem:
            return f"<MCP server {self.__name__}: not available: {clean(self._problem)}>"
        count = len(self._functions)
        return f"<MCP server {self.__name__}: {count} tool{'' if count == 1 else 's'}>"

    def __str__(self):
        return f"{self!r}\n{self._listing()}".rstrip("\n")

    @property
    def __doc__(self):
        self._tools()
        return self._listing() or self._problem or "It has no tools."

    def _listing(self):
        from _callgate.catalogue import listing

        return listing(self._functions)

    def _tools(self):
        """The tools by the names under which they are bound."""
        if self._bound is None:
            if self._is_remote:
                for listed in host.servers(self.__name__):
                    self._take(listed)
            else:
                self._bind()
        return self._bound or {}

    def _take(self, listed):
        self._offers = listed["tools"]
        self._problem = listed.get("problem")
        self._bind()

    def _bind(self):
        self._functions = [ToolFunction(offer, self.__name__) for offer in self._offers]
        # What is down now may be up when it is asked again.
        self._bound = None if self._problem else names.bind(self._functions)

    _functions = ()


def servers_of(start):
    """The servers of a run: those of the operator, then those that offered tools say they belong to."""
    servers = {name: Server(name) for name in start.get("servers") or ()}
    offers = {}
    for offer in start["tools"]:
        name = offer.get("serverName")
        if name and name not in servers:
            offers.setdefault(name, []).append(offer)
    return [*servers.values(), *(Server(name, of) for name, of in offers.items())]


def _missing(name, known):
    return f"there is no server {name!r}; " + (f"servers: {', '.join(known)}" if known else "no servers were given")


def _fetch(servers):
    """Ask once what all of them have that has not been asked yet."""
    unknown = {server.__name__: server for server in servers if server._is_remote and server._bound is None}
    if unknown:
        for listed in host.servers(None):
            if listed["name"] in unknown:
                unknown[listed["name"]]._take(listed)


def remote_tools(servers):
    """The tools of the operator's servers, and what is wrong with those that have none to show."""
    _fetch(servers)
    remote = [server for server in servers if server._is_remote]
    functions = [function for server in remote for function in server._functions]
    return functions, [server._problem for server in remote if server._problem]
