import asyncio

# What to look for, industry by industry.
TOPICS = {
    "agriculture": ["farmers harvest wheat", "dairy milk farms"],
    "energy": ["electricity grid power", "wind solar battery"],
    "finance": ["bank interest payments", "insurance loan rules"],
    "healthcare": ["hospital patients clinic", "vaccine blood test trial"],
    "logistics": ["freight shipping containers port", "warehouse trucks delivery"],
    "retail": ["retailer stores shoppers", "online shop returns"],
}

customers = query_database("""
    select name, contact, mail, industry from customers
    where plan = 'enterprise' order by name
""")
industries = sorted({customer["industry"] for customer in customers})
print(f"{len(customers)} enterprise customers in {len(industries)} industries")

# All searches at once.
searches = [(industry, topic) for industry in industries for topic in TOPICS.get(industry, [industry])]
results = await asyncio.gather(*(search_news.aio(query=topic, days=14) for _, topic in searches))

# An article may be found twice: keep its best score, then the best three of each industry.
found = {industry: {} for industry in industries}
for (industry, _), hits in zip(searches, results):
    for hit in hits:
        known = found[industry].get(hit["id"])
        if known is None or hit["score"] > known["score"]:
            found[industry][hit["id"]] = hit
news = {
    industry: sorted(hits.values(), key=lambda hit: -hit["score"])[:3]
    for industry, hits in found.items()
}
for industry in industries:
    print(f"{industry}: {', '.join(hit['id'] for hit in news[industry])}")

sent, failed = [], []
for customer in customers:
    articles = news[customer["industry"]]
    lines = [f"Dear {customer['contact']},", "", f"this is what moved {customer['industry']} in the last two weeks:"]
    for article in articles:
        lines += ["", f"* {article['title']} ({article['date']})", f"  {article['text']}"]
    lines += ["", "Kind regards", "Your news agent"]
    try:
        send_mail(
            to=customer["mail"],
            subject=f"{len(articles)} articles for {customer['name']}: {articles[0]['title']}",
            body="\n".join(lines),
        )
        sent.append(customer["name"])
    except ToolCallError as error:
        print(f"no mail to {customer['name']}: {error.message}")
        failed.append({"customer": customer["name"], "reason": error.message})

{
    "sent": sent,
    "failed": failed,
    "articles": sum(len(articles) for articles in news.values()),
}
