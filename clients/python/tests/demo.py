# What a model writes for the task of the feature request (pydantic-ai issue 2037).
import asyncio

recent_news = call_tool(
    "web_search", query="AI breakthroughs enterprise 2025", max_results=20, time_filter="1month"
)
customers = query_database(sql="select name, mail, industry from customers where plan = 'enterprise'")
by_customer = await asyncio.gather(*(web_search.aio(query=customer["industry"]) for customer in customers))
sent = 0
for customer, articles in zip(customers, by_customer):
    titles = [article["title"] for article in recent_news + articles]
    send_email(to=customer["mail"], subject=f"News for {customer['name']}", body="\n".join(titles))
    sent += 1
sent
