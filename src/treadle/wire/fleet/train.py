"""What is stored of a train: the changes that wait to land on one branch, and what is being tried. `train.NAME`.

A *change* is the commit of a finished order. A *car* is one or more changes merged on top of a commit and checked
together. The *row* are cars that build on each other, the first of them on the branch's tip; cars *apart* are single
changes that are checked alone first.
"""

from typing import Literal, TypeAlias

import msgspec

from treadle.wire.fleet.records import Delay, Note

TRAIN_FORMAT = 1
Verdict: TypeAlias = Literal["", "green", "red"]
Policy: TypeAlias = Literal["auto", "serial"]
ChecksOn: TypeAlias = Literal["here", "nodes"]
Alone: TypeAlias = Literal["", "must", "green"]


class QueuedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    order: str
    commit: str
    base: str = ""
    """The commit that the work began from: between the two lies what its order states to have changed."""
    title: str = ""
    goal: str = ""
    """The goal or project that its order belongs to."""
    agent: str = ""
    receipt: str = ""
    """The digest of its order's receipt."""
    at: float = 0.0
    """When it was queued: the oldest goes first."""
    alone: Alone = ""
    """`must`: it was in a red car, so it is checked alone before it joins another; `green`: it was."""
    blocked_on: str = ""
    """The end of the row that it conflicts with. It is tried again when the row ends in another commit."""
    anyway: bool = False
    """It may change the files that its check is made of and those that other programs obey: a person said so."""
    may_change: tuple[str, ...] = ()
    """Patterns of the files of its judge that it may change, as its order says, or a person who looked at them."""
    verify: str = ""
    """Its order's own check, which a car that holds it must pass beside the branch's."""
    setup: str = ""
    network: str = ""
    """What that check may reach, as its order says."""
    require: str = ""
    """What it must show to land, as its order says: `tested` or `proven`."""
    agreed: str = ""
    """The word of its evidence with which a person lets it land."""
    no_help: bool = False
    """If it is red or conflicts it is left out, and no one is asked to help."""
    first: str = ""
    """The order that it all began with, when this is that one's work after it was sent back."""
    tries: int = 0
    """How often it was sent back."""
    tried: tuple[str, ...] = msgspec.field(default=(), name="told")
    """What was tried, one line each."""
    files: tuple[str, ...] = ()
    """What it conflicted in before it was helped: others wait for it, that conflict there too."""


class Car(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    orders: tuple[str, ...]
    on: str
    """The commit that it was built on: the branch's tip, or the car before it."""
    commit: str
    tree: str
    verdict: Verdict = ""
    """About this commit and no other. Empty: not checked yet."""
    reds: int = 0
    """How often its check has failed; a single change is checked once more, because checks can be flaky."""
    apart: bool = False
    output: str = ""
    """The end of what the check printed, when it failed."""


class LandingIntent(msgspec.Struct, frozen=True, kw_only=True):
    """The branch is about to move. It is only ever carried forward, so two trains at once do the same."""

    old: str
    new: str
    tree: str
    orders: tuple[str, ...]
    verify: str = ""
    """The check that the tree has passed."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change that left the train without landing."""

    order: str
    kind: Literal["red", "conflict", "judge", "evidence", "refused", "person", "there"]
    """`there`: the branch had it already. `person`: a person took it out. `judge`: it changes what it is checked by.
    `evidence`: its check shows less than is required."""
    why: str
    at: float
    output: str = ""
    forge: bool = False
    """A forge's checks or its reviewers said so; the train's own check had passed."""
    files: tuple[str, ...] = ()
    """What it conflicts in, or changes of its judge."""
    word: str = ""
    """That of its evidence, where it is too little."""


class ReturnedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change that was red, in conflict, changed its judge or shows too little, and went to who can help. It leaves
    this list when it is queued again."""

    order: str
    """The order whose change left the train, or the last one that tried to help."""
    first: str
    commit: str
    base: str = ""
    kind: Literal["red", "conflict", "judge", "evidence"]
    why: str
    output: str = ""
    forge: bool = False
    files: tuple[str, ...] = ()
    """As in what was left out."""
    at: float
    """When its work was first queued: it keeps its place."""
    verify: str = ""
    may_change: tuple[str, ...] = ()
    """Both as in what was queued: someone may have given it others than its order has."""
    word: str = ""
    """That of its evidence, where it is too little."""
    tries: int = 0
    to: Literal["", "author", "reconciler", "person"] = ""
    by: str = ""
    """The order that helps; empty while none was made."""
    tip: str = ""
    """The commit of the branch that the help began from: what it changed is counted from there."""
    result: str = ""
    """The order whose work lands if the person who is asked agrees: it does not hold both sides."""
    words: str = ""
    """What a person said about it."""
    tried: tuple[str, ...] = msgspec.field(default=(), name="told")
    """What was tried, one line each, for the person who is asked in the end."""


class TrainRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = TRAIN_FORMAT
    repository: str
    branch: str
    verify: str = ""
    """The branch's check."""
    verify_by: str = ""
    """Who gave it: `person`, `project` (its settings), `goal`. Empty: by a release that let the first order do so."""
    setup: str = ""
    require: str = ""
    """What work must show to land here, beside what the branch's settings and its order say."""
    forge: str = ""
    """The forge whose pull requests move the branch, such as `github`. Empty: it is moved by us."""
    forge_token: str = ""
    """The name of the variable that holds the forge's token. The token itself is nowhere."""
    slots: int = 2
    """How many checks run at once."""
    policy: Policy = "auto"
    """`serial`: one change after the other, each checked alone on the tip."""
    checks_on: ChecksOn = "here"
    """Where checks run: where the train does, or as orders on any node."""
    notes: bool = False
    """Whether what lands gets git-ai notes and Agent Trace records."""
    tip: str = ""
    """The branch as the train last saw it."""
    landed: int = 0
    """How many changes have landed."""
    queue: tuple[QueuedChange, ...] = ()
    row: tuple[Car, ...] = ()
    apart: tuple[Car, ...] = ()
    landing: LandingIntent | None = None
    red: float = 1.0
    seen: float = 10.0
    """How many changes were seen and how many of them were red, from a guess of 1 in 10 on."""
    checks: int = 0
    flaky: int = 0
    """Checks that failed once and passed when they were run again."""
    paused: Note | None = None
    """It stands still until a person lets it go on."""
    delay: Delay | None = None
    """It goes on by itself."""
    back: tuple[ReturnedChange, ...] = ()
    reconciler: str = ""
    """The agent that resolves what authors could not. Empty: the author's, in a new session."""
    left_out: tuple[LeftOut, ...] = ()


class Boarding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`boards.ORDER`: a finished order whose work is to land. Written with its end, removed when it is queued."""

    format: int = TRAIN_FORMAT
    order: str
    root: str
    branch: str
    verify: str = ""
    setup: str = ""
    anyway: bool = False
    """As in a queued change."""
    again: bool = False
    """A person wants it, also if it was left out before."""


class TrainRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`steers.TRAIN`: a person wants it to stand still, or without a reason to go on. Removed when that is done."""

    format: int = TRAIN_FORMAT
    by: str
    pause: str = ""


class LandedRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`landed.ORDER.TRAIN`: created once, when the branch has the change. The only proof."""

    format: int = TRAIN_FORMAT
    order: str
    train: str
    branch: str
    commit: str
    tree: str
    seq: int
    at: float
    on: str = ""
    """The branch's tip before."""
    verify: str = ""
    """The check that this tree has passed."""
    receipt: str = ""
    """The digest of the order's receipt: together they say what was done, what was checked and what landed."""
    change: str = ""
    base: str = ""
    """Between these two commits lies what its order has changed."""
    by: str = ""
    """The order whose work landed for it, after it was sent back."""
    repository: str = ""
    """Where 0.2.0 merged it by hand, so that a train can be made which takes it back."""


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`drives.TRAIN`: expires unless it is renewed."""

    host: str
    pid: int
    start: int
    token: str
