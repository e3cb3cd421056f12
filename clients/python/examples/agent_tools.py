"""What an agent can do, in the other examples: plain functions, blocking or not."""

from typing import Any

TASK = (
    "Find recent AI breakthroughs relevant to our enterprise customers "
    "and send them personalized email updates."
)

MAILS: list[dict[str, str]] = []


async def web_search(
    query: str, max_results: int = 20, time_filter: str | None = None
) -> list[dict[str, str]]:
    """Search the web."""
    hits = [
        {"title": f"{query}: news {number}", "url": f"https://news.example/{number}"} for number in (1, 2, 3)
    ]
    return hits[:max_results]


def query_database(sql: str) -> list[dict[str, Any]]:
    """Ask the customer database."""
    return [
        {"name": "Ann", "mail": "ann@customers.example", "industry": "shipping"},
        {"name": "Bob", "mail": "bob@customers.example", "industry": "health"},
    ]


def send_email(to: str, subject: str, body: str) -> None:
    """Send a mail."""
    MAILS.append({"to": to, "subject": subject, "body": body})
