"""Certificates for the TLS tests, made by openssl in a folder of the session."""
from __future__ import annotations

import pathlib
import subprocess


def openssl(*args) -> None:
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


CA_CONFIG = """
[ca]
default_ca = tests
[tests]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = anything
unique_subject = no
copy_extensions = copy
[anything]
commonName = supplied
"""


class Certificates:
    """A certificate authority of the tests. Each name gives {cert, key, ca}."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.ca = folder / "ca.crt"
        (folder / "index.txt").touch()
        (folder / "ca.cnf").write_text(CA_CONFIG.format(folder=folder))
        self.self_signed("ca", "Lockkeeper tests")
        self.issue("good", "DNS:localhost,IP:127.0.0.1")
        self.issue("named", "DNS:localhost")
        self.issue("wrong_host", "DNS:elsewhere.example")
        self.issue("expired", "DNS:localhost,IP:127.0.0.1", "20200101000000Z", "20200201000000Z")
        self.issue("early", "DNS:localhost,IP:127.0.0.1", "20980101000000Z", "20990101000000Z")
        self.issue("client", "DNS:client.example")
        self.self_signed("self_signed", "localhost", "DNS:localhost,IP:127.0.0.1")

    def self_signed(self, name: str, subject: str, names: str = "") -> None:
        extra = ["-addext", f"subjectAltName={names}"] if names else []
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt",
                "-days", "3650", "-subj", f"/CN={subject}", *extra)

    def issue(self, name: str, names: str, start: str = "20200101000000Z",
              end: str = "20990101000000Z") -> None:
        request = self.folder / f"{name}.csr"
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.folder / f"{name}.key", "-out", request,
                "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        openssl("ca", "-batch", "-notext", "-config", self.folder / "ca.cnf", "-cert", self.ca,
                "-keyfile", self.folder / "ca.key", "-in", request,
                "-out", self.folder / f"{name}.crt", "-startdate", start, "-enddate", end)

    def files(self, name: str) -> dict:
        return {"cert": self.folder / f"{name}.crt", "key": self.folder / f"{name}.key",
                "ca": self.ca}
