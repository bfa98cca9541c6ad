"""lockkeeper lock --while: what is named from the script's folder is found again from the root."""
from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from certificates import Certificates
from command import Command
from servers import Server
from test_lock_while import await_nothing, keepers
from waiting import never, until

LOCK = "lock -l 1500ms --while $$ job"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def make_server(folder):
    made = []

    def make(config: dict | None = None, tls: dict | None = None) -> Server:
        made.append(Server(folder, config, tls).start_anywhere())
        return made[-1]

    yield make
    for server in made:
        for pid in keepers(server):
            os.kill(pid, 9)
        server.stop()


@pytest.fixture
def script(folder):
    """script(options, **environment): one in the server's folder that holds a lock."""
    command = Command({})

    def start(lock: str, **environment: str) -> subprocess.Popen:
        path = folder / "script"
        path.write_text(f"#!/bin/sh\nexport MARK={folder}/redis.sock\n"
                        f"lockkeeper {lock} && read line; lockkeeper show job\n")
        path.chmod(0o755)
        process = subprocess.Popen([path], env={**command.environment, **environment},
                                   cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        command.started.append(process)
        return process

    yield start
    for process in command.started:
        process.stdin.close()
    command.stop()


def stays(server: Server, process: subprocess.Popen) -> None:
    """The lock outlives its connections."""
    until(lambda: process.poll() is not None or server.call("EXISTS", "job"), 20, "it is locked")
    for _ in range(2):
        server.call("CLIENT", "KILL", "TYPE", "normal")
        never(lambda: process.poll() is not None or not server.call("EXISTS", "job"), 2.5,
              "it is renewed")
    process.stdin.close()
    until(lambda: process.poll() is not None, 20, "the script ends")
    await_nothing(server)


@pytest.mark.parametrize("way", ["url", "option", "environment", "file", "query"])
def test_a_socket(make_server, script, folder, way):
    server = make_server()
    (folder / "conf").write_text("url=unix://redis.sock\n")
    options, environment = {
        "url": ("--url unix://redis.sock", {}),
        "option": ("-o url=unix://./redis.sock", {}),
        "environment": ("", {"LOCKKEEPER_URL": "unix://redis.sock"}),
        "file": ("", {"LOCKKEEPER_CONFIG": "conf"}),
        "query": ("--url 'unix://redis.sock?db=0&spin_us=0'", {}),
    }[way]
    stays(server, script(f"{LOCK} {options}", **environment))


def test_a_socket_whose_path_from_the_root_is_too_long(make_server, script, folder):
    """Then the folder is kept instead."""
    server = make_server()
    deep = folder / ("d" * 100)
    deep.mkdir()
    (deep / "up").symlink_to(folder)
    stays(server, script(f"lock >/dev/null -l 1 x --url unix://redis.sock; cd {deep.name}; "
                         f"lockkeeper {LOCK} --url unix://up/redis.sock"))


@pytest.mark.parametrize("way", ["option", "environment", "file", "query", "openssl",
                                 "openssl-folder"])
def test_certificates(make_server, script, certificates, folder, way):
    files = certificates.files("good")
    server = make_server(tls={**files, "auth": "yes"})
    for name, file in [("ca.pem", files["ca"]), ("cert.pem", files["cert"]),
                       ("key.pem", files["key"])]:
        shutil.copy(file, folder / name)
    (folder / "conf").write_text("tls_ca_file=ca.pem\n")
    (folder / "authorities").mkdir()
    shutil.copy(files["ca"], folder / "authorities" / "ca.pem")
    subprocess.run(["openssl", "rehash", folder / "authorities"], check=True)
    options, environment = {
        "option": ("-o tls_ca_file=ca.pem", {}),
        "environment": ("", {"LOCKKEEPER_TLS_CA_FILE": "ca.pem"}),
        "file": ("", {"LOCKKEEPER_CONFIG": "conf"}),
        "query": ("", {}),
        "openssl": ("", {"SSL_CERT_FILE": "ca.pem"}),
        "openssl-folder": ("", {"SSL_CERT_DIR": "/nonexistent:authorities"}),
    }[way]
    query = "?tls_ca_file=ca.pem" if way == "query" else ""
    stays(server, script(f"{LOCK} --url 'rediss://localhost:{server.port}{query}' "
                         "-o tls_cert_file=cert.pem -o tls_key_file=./key.pem " + options,
                         **environment))


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_password_that_changes(make_server, script, folder, way):
    server = make_server({"requirepass": "old"})
    (folder / "pw").write_text("old\n")
    options, environment = {
        "option": ("-o password_file=pw", {}),
        "environment": ("", {"LOCKKEEPER_PASSWORD_FILE": "pw"}),
    }[way]
    process = script(f"{LOCK} --url unix://{server.path} {options}", **environment)
    until(lambda: server.call("EXISTS", "job"), 20, "it is locked")
    (folder / "pw").write_text("new\n")
    server.set("requirepass", "new")
    server.config["requirepass"] = "new"
    stays(server, process)
