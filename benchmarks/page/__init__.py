"""The page, in parts that can run separately: `python -m benchmarks page.scroll`; `python -m benchmarks page` runs all.

    paint      first paint, weight and requests of a cold browser
    scroll     scrolling through 100,000 orders
    long_run   opening a run of 50,000 events
    wall       50 changing terminals, all of them on screen
    watchers   200 watchers: memory of the server, how much slower runs get, and the delay of events
    cuts       200 lost connections: what is lost, shown twice, or stays although it is gone
    asks       1,000 questions while engine, node and page are killed and started again
    keys       answering 20 questions with the keyboard
    newcomer   from installing to the first order in the page

Each part has its own fleet and server, on loopback, and a real Chromium. Variables BENCH_PAGE_ORDERS, _EVENTS,
_TERMINALS, _WATCHERS, _CUTS and _ASKS set other sizes.
"""

import importlib

PARTS = ("paint", "scroll", "long_run", "wall", "watchers", "cuts", "asks", "keys", "newcomer")


def main() -> None:
    for name in PARTS:
        print(f"-- {name}", flush=True)
        importlib.import_module(f"benchmarks.page.{name}").main()
