"""What orders are, whatever they are kept in: who orders, changes, pays and cancels what, and when."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

CUSTOMERS, KEPT = 20, 300
_FEWEST = 3
_ITEMS = ("apple", "bread", "cheese", "dates ☃", "eggs", "flour")
Order = tuple[str, int]
"""Customer and number; numbers ascend over all customers."""


class Orders(ABC):
    """See `workloads.workload.Workload`; a system adds how each change is written."""

    def __init__(self, chance: random.Random) -> None:
        """Know of no order yet."""
        self.chance = chance
        self.orders: deque[Order] = deque()
        self._next = 1

    def take_note(self, there: Iterable[Order]) -> None:
        """Go on with the orders that are there."""
        self.orders = deque(sorted(there, key=lambda order: order[1])[-KEPT:])
        self._next = max((number for _, number in self.orders), default=0) + 1

    def step(self) -> str:
        """See `Workload.step`."""
        pick = self.chance.random()
        if len(self.orders) < _FEWEST or pick < 0.3:
            return self._order()
        if pick < 0.85 and len(self.orders) < KEPT:
            return self.chance.choice(self.changes)()
        return self._cancel()

    def _order(self) -> str:
        order = f"c{self.chance.randrange(CUSTOMERS)}", self._next
        lines = {self.item(): self.chance.randrange(1, 9) for _ in range(self.chance.randrange(1, 4))}
        self.insert(order, lines)
        self._next += 1
        self.orders.append(order)
        return "insert"

    def _cancel(self) -> str:
        """One order; now and then all of a customer's up to it, and the cart."""
        customer, number = order = self.chance.choice(self.orders)
        if self.chance.random() < 0.2:
            self.delete_up_to(order)
            self.orders = deque(kept for kept in self.orders if kept[0] != customer or kept[1] > number)
        else:
            self.delete(order)
            self.orders.remove(order)
        return "delete"

    @property
    @abstractmethod
    def changes(self) -> Sequence[Callable[[], str]]:
        """Changes of orders and carts that are there; each returns its kind."""

    @abstractmethod
    def insert(self, order: Order, lines: Mapping[str, int]) -> None:
        """Write a new order of so many pieces of each item."""

    @abstractmethod
    def delete(self, order: Order) -> None:
        """Delete an order."""

    @abstractmethod
    def delete_up_to(self, order: Order) -> None:
        """Delete a customer's orders up to this one, and the cart, at once."""

    def item(self) -> str:
        """Something to order."""
        return self.chance.choice(_ITEMS)

    def total(self) -> Decimal:
        """What an order costs."""
        return Decimal(self.chance.randrange(100, 100_000)).scaleb(-2)

    def place(self) -> tuple[str, str]:
        """Street and postal code."""
        return f"{self.chance.randrange(99)} Main St", str(self.chance.randrange(10_000, 99_999))
