"""What was removed from a directory of terminals is made again, and what dead ones left is removed."""

import os
import socket

from tests.terminal.support import Stage, connected, until
from treadle.terminal.places import Place
from treadle.terminal.repair import repair


def test_a_living_supervisor_makes_its_socket_again_and_is_named(stage: Stage) -> None:
    place = stage.start("cat")
    supervisor, _ = place.pids()
    os.unlink(place.sock)
    assert repair(str(stage.directory)) == [f"{place.sock}: made again by process {supervisor}"]
    with connected(place) as client:
        assert client.status().alive


def test_a_socket_that_a_dead_one_left_is_removed_and_that_of_the_living_is_not(stage: Stage) -> None:
    living = stage.start("cat")
    gone = Place(str(stage.directory), "gone")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(gone.sock)
    assert repair(str(stage.directory)) == [f"{gone.sock}: removed, it was left by a dead supervisor"]
    assert os.path.exists(living.sock) and not os.path.exists(gone.sock)
    assert repair(str(stage.directory)) == []


def test_terminals_of_another_directory_are_left_alone(stage: Stage, tmp_path: os.PathLike[str]) -> None:
    place = stage.start("cat")
    os.unlink(place.sock)
    assert repair(str(tmp_path)) == []
    until(lambda: os.path.exists(place.sock) or repair(str(stage.directory)))
