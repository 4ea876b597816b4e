"""Several processes as one: a communicator averages gradients and says who writes."""

from .comm import Alone

__all__ = ["Alone"]
