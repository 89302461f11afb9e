"""The page, in parts that each run alone: `python -m benchmarks page.scroll`; `python -m benchmarks page` runs all.

    paint      first paint, weight and requests of a cold browser
    scroll     100,000 orders while they are scrolled
    long_run   a run of 50,000 events while it is opened
    wall       50 terminals that change, all of them on screen
    watchers   200 watchers: memory of the server, how much slower runs are, and an event's way to a socket
    cuts       200 cuts of the connection: what is lost, shown twice, or stays though it is gone
    asks       1,000 questions while engine, node and page are killed and started again
    keys       20 questions that are answered with the keyboard
    newcomer   from installing to the first order that is seen in the page

Each part has a fleet and a server of its own, on loopback, and a real Chromium. Variables BENCH_PAGE_ORDERS, _EVENTS,
_TERMINALS, _WATCHERS, _CUTS and _ASKS set other sizes.
"""

import importlib

PARTS = ("paint", "scroll", "long_run", "wall", "watchers", "cuts", "asks", "keys", "newcomer")


def main() -> None:
    for name in PARTS:
        print(f"-- {name}", flush=True)
        importlib.import_module(f"benchmarks.page.{name}").main()
