"""CuPy for processes of tests, as an installed package: see devices/host/installed.py."""

from devices.host.installed import install

install(__name__)
