"""Many orders on one machine or many, on NATS JetStream. Commands and HTTP handlers call what is in `client.py`.

engine     the NATS server, its streams and rights, and how everything else reads and writes them
schedule   what one elected scheduler decides: an order's states, who works on what, what waits and why
run        one attempt at an order: its process, its workspace, its questions, its events and what it leaves
join       how another machine becomes a worker
find       all orders in a form that can be filtered, counted and searched

Here lie the records that all rooms share (`orders`, `control`, `accounts`, `schedules`), what a client may ask
(`client`, `submitting`, `results`, `reviews`, `races`, `glance`), and the processes of one machine (`node`, `up`).
HTTP and the page are not here but in `serve`; how one order is carried out without a fleet is in `host`.
"""
