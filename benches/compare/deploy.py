"""The twenty resources of tests/fleet/recipes/twenty.yaml for pyinfra."""

from io import StringIO

from pyinfra import host
from pyinfra.facts.files import File
from pyinfra.operations import apt, files, server, systemd

for name in ["a", "b", "c", "d"]:
    files.directory(name=f"folder {name}", path=f"/srv/{name}", mode="755", user="root", group="root")
for name in ["a/1", "a/2", "b/1", "b/2", "c/1", "c/2", "d/1", "d/2"]:
    files.put(name=f"file {name}", src=StringIO(f"file {name}\n"), dest=f"/srv/{name}", mode="644", user="root", group="root")
apt.packages(name="tools", packages=["forge-demo", "forge-tool", "forge-dep"])
for name in ["ann", "bob"]:
    server.user(name=f"account {name}", user=name, system=True)
for name in ["forge-demo.service", "ssh.service"]:
    systemd.service(name=f"daemon {name}", service=name, running=True, enabled=True)
if not host.get_fact(File, path="/srv/marker"):
    server.shell(name="marker", commands=["touch /srv/marker"])
