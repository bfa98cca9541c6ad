"""The options of TLS from each place where options come from; what is said where less is verified
than should be."""
from __future__ import annotations

import pytest

from certificates import openssl
from servers import Server
from test_passing_trouble import certificates  # noqa: F401  (a fixture)

PASSWORD = "S3cr3tMARKER"


@pytest.fixture
def files(folder, certificates):  # noqa: F811
    """A folder of authorities, a client's certificate and its locked key, and its password."""
    (trusted := folder / "trusted").mkdir()
    (trusted / "ca.pem").write_bytes(certificates.ca.read_bytes())
    openssl("rehash", trusted)
    right = certificates.files("client")
    openssl("pkey", "-in", right["key"], "-aes256", "-passout", f"pass:{PASSWORD}", "-out",
            folder / "own.key")
    (folder / "password").write_text(PASSWORD + "\n")
    return {"tls_ca_dir": trusted, "tls_cert_file": right["cert"],
            "tls_key_file": folder / "own.key", "tls_key_password_file": folder / "password"}


@pytest.fixture
def listen(folder, certificates):  # noqa: F811
    """listen(certificate): where a server with it listens."""
    made = []

    def start(name="good", auth="no"):
        (place := folder / f"tls{len(made)}").mkdir()
        made.append(Server(place, {}, {**certificates.files(name), "auth": auth}).start())
        return f"rediss://127.0.0.1:{made[-1].port}"

    yield start
    for server in made:
        server.stop()


def variables(options):
    return {f"LOCKKEEPER_{name.upper()}": str(value) for name, value in options.items()}


def asked(source, url, files, folder, ca):
    """Words and environment."""
    url_only = {"LOCKKEEPER_URL": url}
    if source == "variables":
        return [], {**url_only, **variables(files)}
    if source == "text":
        text = {**files, "tls_ca_data": ca.read_text(), "tls_key_password": PASSWORD}
        del text["tls_ca_dir"], text["tls_key_password_file"]
        return [], {**url_only, **variables(text)}
    if source == "-o":
        return [word for row in files.items() for word in ("-o", "=".join(map(str, row)))], url_only
    if source == "URL":
        query = "&".join(f"{name}={value}" for name, value in files.items()
                         if name != "tls_key_password_file")
        return [], {"LOCKKEEPER_URL": f"{url}?{query}", "LOCKKEEPER_TLS_KEY_PASSWORD": PASSWORD}
    conf = folder / "lockkeeper.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in files.items()))
    return [], {**url_only, "LOCKKEEPER_CONFIG": str(conf)}


@pytest.mark.parametrize("source", ["variables", "text", "-o", "URL", "configuration file"])
def test_each_source(cli, folder, certificates, files, listen, source):  # noqa: F811
    words, environment = asked(source, listen(auth="yes"), files, folder, certificates.ca)
    done = cli("run", "-v", *words, "job", "env", **environment)
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in done.stdout + done.stderr and "tls_verify" not in done.stderr


def test_a_wrong_password_is_told_and_not_shown(cli, files, listen):
    files["tls_key_password_file"].write_text("wrong\n")
    done = cli("run", "-n", "job", "true", LOCKKEEPER_URL=listen(auth="yes"), **variables(files))
    assert done.returncode == 125 and "tls_key_password does not unlock it" in done.stderr
    files["tls_key_password_file"].write_text(PASSWORD * 200)
    done = cli("run", "-n", "job", "true", LOCKKEEPER_URL=listen(auth="yes"), **variables(files))
    assert done.returncode == 125 and PASSWORD not in done.stderr


@pytest.mark.parametrize("certificate, verify, told", [
    ("wrong_host", "authority", "server's name"), ("self_signed", "off", "server's certificate")])
def test_what_is_not_verified_is_said(cli, doctor, certificates, listen,  # noqa: F811
                                      certificate, verify, told):
    url, ca = listen(certificate), {"LOCKKEEPER_TLS_CA_FILE": str(certificates.ca)}
    assert cli("run", "job", "true", LOCKKEEPER_URL=url, **ca).returncode == 125
    url += f"?tls_verify={verify}"
    done = cli("run", "-v", "job", "true", LOCKKEEPER_URL=url, **ca)
    assert done.returncode == 0
    assert f"tls_verify={verify}: the {told} is not verified" in done.stderr
    done = cli("ls", "-v", LOCKKEEPER_URL=url, **ca)
    assert done.returncode == 0 and f"tls_verify={verify}: the {told}" in done.stderr
    assert cli("run", "job", "true", LOCKKEEPER_URL=url, **ca).stderr == ""
    found = {one["id"]: one for one in doctor(LOCKKEEPER_URL=url, **ca)["findings"]}
    assert found["tls-unverified"]["severity"] == "warning"
    assert f"tls_verify is {verify}" in found["tls-unverified"]["detail"]


def test_the_doctor_is_content_with_what_is_verified(doctor, certificates, listen):  # noqa: F811
    report = doctor("--url", listen("good"), LOCKKEEPER_TLS_CA_FILE=str(certificates.ca))
    assert "tls-unverified" not in {one["id"] for one in report["findings"]}
