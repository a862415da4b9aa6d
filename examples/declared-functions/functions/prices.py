"""Prices in cents."""


def total(items, discount=0):
    """Returns what the items cost together."""
    net = sum(item["price"] * item.get("count", 1) for item in items)
    return {"net": net, "total": round(net * (100 - discount) / 100)}


def label(price):
    if price < 0:
        raise ValueError("a price is 0 or more")
    return f"{price // 100}.{price % 100:02}"
