"""moto as it comes, its threads switching at almost every step: the server that `lithify.testing` exists to replace.

Prints its address and serves until its standard input ends.
"""

import sys

from moto.server import ThreadedMotoServer

sys.setswitchinterval(1e-5)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
sys.stdout.write(f"http://{host}:{port}\n")
sys.stdout.flush()
sys.stdin.read()
