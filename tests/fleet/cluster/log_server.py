"""Serves the log of each pod as a kubelet does: python3 log_server.py FOLDER. Prints its port."""
import http.server, os, ssl, subprocess, sys

folder = sys.argv[1]
key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=kubelet"]
subprocess.run(make + ["-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)


class Logs(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        # /containerLogs/NAMESPACE/POD/CONTAINER?…
        pod = self.path.split("?")[0].split("/")[3]
        role = "launcher" if pod.endswith("-launcher") else "worker"
        with open(os.path.join(folder, role + ".log"), "rb") as file:
            text = file.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Logs)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
