"""A goal in place of orders: a plan that people can read, carried out by a fleet until it is met.

waves      which orders can go together, and which claims overlap
check      what a plan will do in a repository: waves, briefs, tokens, and what is wrong with it there
imported   plans from other tools' lists and back: checklists, Markdown tasks, beads, Task Master
history    what a goal's record becomes by what happens: pure
deciding   what is to be done next: pure
looking    what is seen of its orders
briefing   the orders that it gives, and what their agents are told
store      goals in the fleet's store
foreman    carries goals out while its node schedules (`node` is that process)
commands   what people ask of goals
views      a goal as the page shows it

The format itself is in `wire/goal`, so that what lies below can read it too. Orders are run by `fleet` and landed by
`landing`: nothing here runs an agent.
"""
