"""What the parts of a fleet say to each other and store, on NATS: a subject, and JSON that the subject gives a type.

Who speaks: clients (commands, the page, other programs) submit orders and ask; the scheduler decides and stores; nodes
and runners report. Specification: docs/reference/fleet.md.

    orders.py      the one declaration of an order
    records.py     what the scheduler stores of it
    states.py      the states of an order, an attempt and a question, as tables
    messages.py    reports, requests, beats, answers
    train.py       what is stored of a train
    keys.py        the keys of the bucket: what each holds, who writes it, when it goes
    connection.py  which subject carries what, and who may say it
"""
