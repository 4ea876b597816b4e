"""Forecasts of the time of a run."""

from caffelite.inspection import schedule


def test_forecast_is_proportional_to_the_work(monkeypatch):
    monkeypatch.setattr(schedule, "products_per_second", lambda: 3e9 / schedule.SHARE)
    assert schedule.forecast(1e6, 10, 100) == 1.0
    assert schedule.forecast(2e6, 10, 300) == 6.0


def test_products_per_second_is_a_speed():
    assert 1e6 < schedule.products_per_second() < 1e16
