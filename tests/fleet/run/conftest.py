"""Runners, many of them."""

from tests.fleet.warmed import warm_runners as warm_runners
