//! Promise: TLS with the operator's certificate, as it is now.

mod support;

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use reqwest::blocking;
use support::http::HttpServer;

/// A new certificate for `localhost`; returns it as PEM.
fn certify(folder: &Path) -> String {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
            .expect("a certificate can be made");
    fs::write(folder.join("key.pem"), signing_key.serialize_pem()).expect("it can be written");
    fs::write(folder.join("cert.pem"), cert.pem()).expect("it can be written");
    cert.pem()
}

/// A client that trusts this certificate and no other.
fn trusting(certificate: &str) -> blocking::Client {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let certificate = reqwest::Certificate::from_pem(certificate.as_bytes());
    blocking::Client::builder()
        .no_proxy()
        .tls_certs_only([certificate.expect("it is a certificate")])
        .build()
        .expect("a client can be made")
}

fn start(folder: &Path) -> HttpServer {
    let file = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    HttpServer::spawn(&["--tls-cert", &certificate, "--tls-key", &key], &[])
}

fn is_reached(client: &blocking::Client, server: &HttpServer) -> bool {
    let response = client.get(server.path("/health/live")).send();
    response.is_ok_and(|response| response.status() == 200)
}

#[test]
fn clients_that_trust_the_certificate_come_in_and_others_do_not() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let certificate = certify(folder.path());
    let server = start(folder.path());
    assert!(server.url().starts_with("https://"), "{}", server.url());
    assert!(is_reached(&trusting(&certificate), &server));
    let other = certify(tempfile::tempdir().expect("a folder can be made").path());
    assert!(!is_reached(&trusting(&other), &server));
    let plain = server.path("/health/live").replace("https", "http");
    assert!(support::http::client().get(plain).send().is_err());
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    certify(folder.path());
    let server = start(folder.path());
    let renewed = trusting(&certify(folder.path()));
    let start = Instant::now();
    while !is_reached(&renewed, &server) {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(folder.path().join("cert.pem"), "nonsense").expect("it can be written");
    while !server.log().contains("the TLS certificate stays as it was") {
        assert!(start.elapsed() < Duration::from_mins(1), "{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_reached(&renewed, &server));
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    certify(folder.path());
    let path = |name: &str| folder.path().join(name);
    let refused = |certificate: &str, key: &str| {
        let ended = Command::new(env!("CARGO_BIN_EXE_callgate"))
            .args(["http", "--listen", "127.0.0.1:0", "--tls-cert"])
            .arg(path(certificate))
            .arg("--tls-key")
            .arg(path(key))
            .output()
            .expect("the binary starts");
        assert!(!ended.status.success());
        String::from_utf8(ended.stderr).expect("it is text")
    };
    assert!(refused("none.pem", "key.pem").contains("none.pem"));
    assert!(refused("key.pem", "key.pem").contains("there is no certificate in it"));
    assert!(refused("cert.pem", "cert.pem").contains("cert.pem"));
    let old = fs::read_to_string(path("cert.pem")).expect("it is there");
    certify(folder.path());
    fs::write(path("old.pem"), old).expect("it can be written");
    let told = refused("old.pem", "key.pem");
    assert!(
        told.contains("old.pem") && told.contains("key.pem"),
        "{told}"
    );
}
