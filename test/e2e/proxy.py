"""A TCP proxy before slurmrestd that can be slow, lose answers or cut them in the middle. It listens on 127.0.0.1 of the cluster's network."""

import queue
import socket
import threading
import time


class Proxy:
    """Settings may be changed at any time and act on what comes from then on.

    delay      seconds by which each answer comes later
    lose       how many answers to a request that contains `of` are lost: slurmrestd does the work, the client gets a closed connection
    cut        how many answers are cut after their first 100 bytes
    """

    def __init__(self, to):
        self.to, self.delay, self.lose, self.of, self.cut = to, 0.0, 0, b"", 0
        self.lost = self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def heal(self):
        self.delay, self.lose, self.cut = 0.0, 0, 0

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.to, timeout=5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            Connection(self, client, server).start()


class Connection:
    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.late = queue.Queue()
        self.last_request, self.answered = b"", False

    def start(self):
        for part in (self._requests, self._answers, self._deliver):
            threading.Thread(target=part, daemon=True).start()

    def _end(self):
        for s in (self.client, self.server):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _requests(self):
        try:
            while data := self.client.recv(65536):
                if data.startswith((b"GET ", b"POST ", b"DELETE ")):
                    self.last_request, self.answered = data[:200], False
                self.server.sendall(data)
        except OSError:
            pass
        self._end()

    def _answers(self):
        try:
            while data := self.server.recv(65536):
                first, self.answered = not self.answered, True
                if first and self.proxy.lose > 0 and self.proxy.of in self.last_request:
                    self.proxy.lose, self.proxy.lost = self.proxy.lose - 1, self.proxy.lost + 1
                    break
                if first and self.proxy.cut > 0:
                    self.proxy.cut, self.proxy.cuts = self.proxy.cut - 1, self.proxy.cuts + 1
                    self.client.sendall(data[:100])
                    break
                self.late.put((time.monotonic() + self.proxy.delay, data))
        except OSError:
            pass
        self.late.put(None)

    def _deliver(self):
        try:
            while item := self.late.get():
                time.sleep(max(item[0] - time.monotonic(), 0))
                self.client.sendall(item[1])
        except OSError:
            pass
        self._end()
        self.client.close()
        self.server.close()
